package ipam

import (
	"net/netip"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// Table is the state of address management. It is not safe for concurrent use.
type Table struct{}

// NewTable returns an empty table. Addresses within excluded are never given
// out: those of nodes and of the cluster's own ranges.
func NewTable(pools []Pool, excluded []netip.Prefix) *Table { return &Table{} }

// SetPools replaces the pools.
func (t *Table) SetPools(pools []Pool) {}

// SetExcluded replaces the exclusions.
func (t *Table) SetExcluded(excluded []netip.Prefix) {}

// Restore takes over a holding unchanged.
func (t *Table) Restore(h Holding) {}

// Conflicts returns the restored holdings that exclude each other.
func (t *Table) Conflicts() []Conflict { return nil }

// Reserve takes over a reservation.
func (t *Table) Reserve(r Reservation) {}

// Assign decides a request.
func (t *Table) Assign(req Request, now time.Time) Verdict { return Verdict{} }

// Release gives up everything an owner holds.
func (t *Table) Release(owner model.Key, now time.Time, delay time.Duration) []Reservation {
	return nil
}

// Expire ends the reservations that are over.
func (t *Table) Expire(now time.Time) []Reservation { return nil }

// NextExpiry returns when the next reservation ends.
func (t *Table) NextExpiry() (time.Time, bool) { return time.Time{}, false }

// Holders returns the owners that hold an address, sorted.
func (t *Table) Holders(a netip.Addr) []model.Key { return nil }

// Holding returns what an owner holds.
func (t *Table) Holding(owner model.Key) (Holding, bool) { return Holding{}, false }

// Holdings returns all holdings, sorted by owner.
func (t *Table) Holdings() []Holding { return nil }

// Reservations returns all reservations, sorted by address, then owner.
func (t *Table) Reservations() []Reservation { return nil }
