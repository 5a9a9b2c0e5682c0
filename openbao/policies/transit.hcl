# A replica that seals with Transit: encrypts and decrypts, and can neither export, rotate nor create a key.
# "update" without "create": encrypting under a missing key must fail, not make one.
path "transit/encrypt/mcp-request-state" {
  capabilities = ["update"]
}

path "transit/decrypt/mcp-request-state" {
  capabilities = ["update"]
}

# To tell a dead token from a denied request, and log in again only for the former.
path "auth/token/lookup-self" {
  capabilities = ["read"]
}
