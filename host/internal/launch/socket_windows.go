package launch

// loopbackOnly says that plugins can only listen on loopback TCP: go-plugin
// has no Unix sockets on Windows. Mutual TLS tells the right one.
const loopbackOnly = true
