# Whoever rotates: changes the ring and the Transit key's versions, and never sees the latter. No server logs in so.
path "secret/data/mcp/request-state-keys" {
  capabilities = ["read", "update"]
}

path "secret/metadata/mcp/request-state-keys" {
  capabilities = ["read"]
}

path "secret/destroy/mcp/request-state-keys" {
  capabilities = ["update"]
}

path "transit/keys/mcp-request-state" {
  capabilities = ["read"]
}

path "transit/keys/mcp-request-state/rotate" {
  capabilities = ["update"]
}

# One setting of the key and no other: whoever may set "exportable" may have the key.
path "transit/keys/mcp-request-state/config" {
  capabilities       = ["update"]
  allowed_parameters = { "min_decryption_version" = [] }
}

# To tell a dead token from a denied request, and log in again only for the former.
path "auth/token/lookup-self" {
  capabilities = ["read"]
}
