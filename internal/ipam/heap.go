package ipam

// heap is a binary heap; the least item comes out first.
type heap[T any] struct {
	items []T
	less  func(a, b T) bool
}

func (h *heap[T]) push(x T) {
	h.items = append(h.items, x)
	for i := len(h.items) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.less(h.items[i], h.items[parent]) {
			return
		}
		h.items[i], h.items[parent] = h.items[parent], h.items[i]
		i = parent
	}
}

// least returns the least item without taking it out.
func (h *heap[T]) least() (T, bool) {
	if len(h.items) == 0 {
		var none T
		return none, false
	}
	return h.items[0], true
}

// drop takes the least item out of a heap that is not empty.
func (h *heap[T]) drop() {
	end := len(h.items) - 1
	h.items[0] = h.items[end]
	h.items = h.items[:end]
	for i := 0; ; {
		child := 2*i + 1
		if child >= end {
			return
		}
		if child+1 < end && h.less(h.items[child+1], h.items[child]) {
			child++
		}
		if !h.less(h.items[child], h.items[i]) {
			return
		}
		h.items[i], h.items[child] = h.items[child], h.items[i]
		i = child
	}
}
