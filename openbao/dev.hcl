# What the lab adds to "bao server -dev". Audit devices are declared here because OpenBao no longer
# lets anybody switch them on, or off, over the API. The path is relative to the server's own folder.
audit "file" "file" {
  options = {
    file_path = "audit.log"
  }
}
