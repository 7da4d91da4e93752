package control

import "golang.org/x/sys/windows"

// connRefused says that nobody listens on a socket that is there.
const connRefused = windows.WSAECONNREFUSED
