# A replica that seals with a key ring: reads the ring, and nothing else.
path "secret/data/mcp/request-state-keys" {
  capabilities = ["read"]
}

# To tell a dead token from a denied request, and log in again only for the former.
path "auth/token/lookup-self" {
  capabilities = ["read"]
}
