# Writes down what was planned, begun and done, and looks for what was begun and not done. Whoever may write here can
# have a recovering server delete what nobody confirmed: only servers that may delete anyway log in so.
path "secret/data/mcp/operations/+" {
  capabilities = ["create", "read", "update"]
}

path "secret/metadata/mcp/operations/" {
  capabilities = ["list"]
}

# To forget what is long over, or was never confirmed.
path "secret/metadata/mcp/operations/+" {
  capabilities = ["delete"]
}

# To tell a dead token from a denied request, and log in again only for the former.
path "auth/token/lookup-self" {
  capabilities = ["read"]
}
