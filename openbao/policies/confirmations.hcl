# Parks a plan behind a single-use claim. Wrapping is all it may do: a claim is its own credential, so redeeming
# and burning need no role. A claim outlives nobody's patience: the server refuses more than five minutes.
path "sys/wrapping/wrap" {
  capabilities     = ["update"]
  min_wrapping_ttl = "1s"
  max_wrapping_ttl = "300s"
}

# To tell a dead token from a denied request, and log in again only for the former.
path "auth/token/lookup-self" {
  capabilities = ["read"]
}
