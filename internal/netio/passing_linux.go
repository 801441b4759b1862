package netio

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// PassMost is how many descriptors one packet of Pass may carry (SCM_MAX_FD is
// 253, unix(7)).
const PassMost = 200

// passText bounds the text of a packet, in bytes.
const passText = 64 << 10

// Pass sends a packet of text with descriptors to another process, over a
// connection of the network "unixpacket" (SCM_RIGHTS, unix(7)). The sockets stay
// open here as well.
func Pass(to *net.UnixConn, text string, sockets []syscall.Conn) error {
	fds := make([]int, 0, len(sockets))
	for _, s := range sockets {
		raw, err := s.SyscallConn()
		if err != nil {
			return fmt.Errorf("passing a socket: %w", err)
		}
		if err := raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) }); err != nil {
			return fmt.Errorf("passing a socket: %w", err)
		}
	}
	var rights []byte
	if len(fds) > 0 {
		rights = syscall.UnixRights(fds...)
	}
	if _, _, err := to.WriteMsgUnix([]byte(text), rights, nil); err != nil {
		return fmt.Errorf("passing %d sockets: %w", len(fds), err)
	}
	return nil
}

// Receive takes a packet of Pass. The caller closes the files, also together
// with an error.
func Receive(from *net.UnixConn) (string, []*os.File, error) {
	const word = 4 // a descriptor
	text, rights := make([]byte, passText), make([]byte, syscall.CmsgSpace(PassMost*word))
	n, nr, flags, _, err := from.ReadMsgUnix(text, rights)
	if err != nil {
		return "", nil, fmt.Errorf("receiving sockets: %w", err)
	}
	messages, err := syscall.ParseSocketControlMessage(rights[:nr])
	if err != nil {
		return "", nil, fmt.Errorf("receiving sockets: %w", err)
	}
	var files []*os.File
	for i := range messages {
		fds, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			return "", files, fmt.Errorf("receiving sockets: %w", err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	if flags&(syscall.MSG_TRUNC|syscall.MSG_CTRUNC) != 0 {
		return "", files, errors.New("receiving sockets: the packet was longer than agreed")
	}
	return string(text[:n]), files, nil
}
