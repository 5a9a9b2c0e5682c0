# The combined role, kept to show why it is too wide: whoever steals this server's token reads the ring
# of a deployment that believes its keys never leave Transit.
path "secret/data/mcp/request-state-keys" {
  capabilities = ["read"]
}

path "transit/encrypt/mcp-request-state" {
  capabilities = ["update"]
}

path "transit/decrypt/mcp-request-state" {
  capabilities = ["update"]
}

path "sys/wrapping/wrap" {
  capabilities     = ["update"]
  min_wrapping_ttl = "1s"
  max_wrapping_ttl = "300s"
}

path "sys/wrapping/unwrap" {
  capabilities = ["update"]
}

# To tell a dead token from a denied request, and log in again only for the former.
path "auth/token/lookup-self" {
  capabilities = ["read"]
}
