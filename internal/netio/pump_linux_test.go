package netio

import (
	"bytes"
	"io"
	"testing"
)

// TestPumpLeavesMuchInTheKernel: once a buffer was full, bytes are not copied.
func TestPumpLeavesMuchInTheKernel(t *testing.T) {
	client, in := pair(t)
	out, member := pair(t)
	p, err := NewPump(out, in, new(Buffers))
	if err != nil {
		t.Fatal(err)
	}
	// All of it fits the first window of a connection, so it is there at once.
	want := bytes.Repeat([]byte("0123456789abcdef"), 3*BufferSize/16)
	if _, err := client.Write(want); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	for moved := 0; moved < len(want); {
		if err := p.Wait(); err != nil {
			t.Fatal(err)
		}
		if inKernel := p.buf == nil; inKernel != (moved > 0) {
			t.Errorf("after %d bytes the next ones are in the kernel: %v", moved, inKernel)
		}
		n, err := p.Move()
		if err != nil {
			t.Fatal(err)
		}
		moved += int(n)
	}
	if _, err := io.ReadFull(member, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("other bytes arrived: %v", err)
	}
}
