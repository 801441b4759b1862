package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/netio"
)

// What the two processes of a hand-over say. Every packet of sockets begins
// with the version; then comes a line for each socket.
const (
	handoverVersion = "fairlead sockets 1"
	handoverEnd     = "end"
	handoverServing = "serving"
)

// Handover passes the listening sockets to another process, which called Inherit
// at the other end of a connection of the network "unixpacket", and returns nil
// when that process has said that it serves; how long that may take is the
// deadline of the connection. Until then both accept from the same queues, so
// no connection is lost but one that waits at a connection limit. Afterwards
// the caller ends Run, which lets the connections of this process go on for
// the configured grace. After an error this process goes on as before. Set
// must not be called meanwhile.
//
// TCP connections stay with this process. UDP flows end with it, and their
// clients' next datagrams begin new ones there; affinity is not passed on.
func (p *Proxy) Handover(to *net.UnixConn) error {
	p.mu.Lock()
	all := make([]*socket, 0, len(p.sockets))
	for _, s := range p.sockets {
		all = append(all, s)
	}
	p.mu.Unlock()
	slices.SortFunc(all, func(a, b *socket) int { return a.id.compare(b.id) })
	for batch := range slices.Chunk(all, netio.PassMost) {
		var text strings.Builder
		text.WriteString(handoverVersion)
		var conns []syscall.Conn
		for _, s := range batch {
			fmt.Fprintf(&text, "\n%s %s", s.id.protocol, s.id.at)
			conns = append(conns, s.conn())
		}
		if err := netio.Pass(to, text.String(), conns); err != nil {
			return fmt.Errorf("handing over: %w", err)
		}
	}
	if err := netio.Pass(to, handoverEnd, nil); err != nil {
		return fmt.Errorf("handing over: %w", err)
	}
	answer, _, err := netio.Receive(to)
	if err != nil {
		return fmt.Errorf("handing over: waiting for the other process to serve: %w", err)
	}
	if answer != handoverServing {
		return fmt.Errorf("handing over: the other process said %q", answer)
	}
	return nil
}

func (s *socket) conn() syscall.Conn {
	if s.tcp != nil {
		return s.tcp
	}
	return s.udp
}

func (id socketID) compare(o socketID) int {
	return cmp.Or(id.at.Compare(o.at), cmp.Compare(id.protocol, o.protocol))
}

// Inherited are the listening sockets of an earlier process. Its methods may be
// called concurrently.
type Inherited struct {
	from *net.UnixConn

	mu    sync.Mutex
	files map[socketID]*os.File
}

// Inherit takes the sockets that another process hands over. Give them to New in
// the Config, Set everything that is to be served, run the proxy, and then call
// Complete.
func Inherit(from *net.UnixConn) (*Inherited, error) {
	i := &Inherited{from: from, files: map[socketID]*os.File{}}
	for {
		text, files, err := netio.Receive(from)
		if err == nil && text == handoverEnd {
			return i, nil
		}
		if err == nil {
			err = i.add(text, files)
		}
		if err != nil {
			for _, f := range files {
				err = errors.Join(err, f.Close())
			}
			return nil, errors.Join(fmt.Errorf("inheriting sockets: %w", err), i.closeAll())
		}
	}
}

// add takes what one packet holds; with an error it takes nothing.
func (i *Inherited) add(text string, files []*os.File) error {
	lines := strings.Split(text, "\n")
	if lines[0] != handoverVersion || len(lines) != len(files)+1 {
		return fmt.Errorf("a packet of %d sockets begins with %q", len(files), lines[0])
	}
	ids := make([]socketID, len(files))
	for n, line := range lines[1:] {
		protocol, at, _ := strings.Cut(line, " ")
		address, err := netip.ParseAddrPort(at)
		if err != nil {
			return fmt.Errorf("reading the socket %q: %w", line, err)
		}
		ids[n] = socketID{address, model.Protocol(protocol)}
	}
	for n, id := range ids {
		i.files[id] = files[n]
	}
	return nil
}

// Complete tells the earlier process that this one serves, and closes what
// nobody wanted.
func (i *Inherited) Complete() error {
	err := i.closeAll()
	if passed := netio.Pass(i.from, handoverServing, nil); passed != nil {
		err = errors.Join(err, passed)
	}
	if err != nil {
		return fmt.Errorf("completing the hand-over: %w", err)
	}
	return nil
}

func (i *Inherited) closeAll() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	var err error
	for id, f := range i.files {
		err = errors.Join(err, f.Close())
		delete(i.files, id)
	}
	return err
}

// take returns the file of a socket, once; nil: there is none.
func (i *Inherited) take(id socketID) *os.File {
	if i == nil {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	f := i.files[id]
	delete(i.files, id)
	return f
}

// listenTCP returns an inherited socket, or a new one.
func (p *Proxy) listenTCP(id socketID) (*net.TCPListener, error) {
	f := p.cfg.Inherited.take(id)
	if f == nil {
		return netio.ListenTCP(id.at)
	}
	l, err := net.FileListener(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("listening on the inherited %s: %w", id.at, err)
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("listening on the inherited %s: got a %T", id.at, l), l.Close())
	}
	return tcp, nil
}

// listenUDP returns an inherited socket, or a new one.
func (p *Proxy) listenUDP(id socketID) (*net.UDPConn, error) {
	f := p.cfg.Inherited.take(id)
	if f == nil {
		return netio.ListenUDP(id.at)
	}
	c, err := net.FilePacketConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("listening on the inherited %s: %w", id.at, err)
	}
	udp, ok := c.(*net.UDPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("listening on the inherited %s: got a %T", id.at, c), c.Close())
	}
	return udp, nil
}
