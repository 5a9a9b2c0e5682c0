# A replica whose ring lies in KV encrypted: reads it and has Transit open its entries. It can neither seal an entry of
# its own nor use the Transit key of others.
path "secret/data/mcp/request-state-envelope" {
  capabilities = ["read"]
}

path "transit/decrypt/mcp-request-state-envelope" {
  capabilities = ["update"]
}

# To tell a dead token from a denied request, and log in again only for the former.
path "auth/token/lookup-self" {
  capabilities = ["read"]
}
