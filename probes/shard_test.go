package probes

import "testing"

// The shards of a load have each of its requests once.
func TestShardsPartition(t *testing.T) {
	for of := 1; of <= 5; of++ {
		for n := range 13 {
			sum, owners := 0, make([]int, n)
			for i := range of {
				s := Shard{Index: i, Of: of}
				had := 0
				for index := range n {
					if s.Has(index) {
						owners[index]++
						had++
					}
				}
				if got := s.Share(n); got != had {
					t.Errorf("shard %d of %d: share of %d requests = %d, want %d", i, of, n, got, had)
				}
				sum += had
			}
			if sum != n {
				t.Errorf("%d shards have %d of %d requests", of, sum, n)
			}
			for index, k := range owners {
				if k != 1 {
					t.Errorf("%d shards: request %d belongs to %d of them", of, index, k)
				}
			}
		}
	}
	whole := Shard{}
	if !whole.Has(7) || whole.Share(9) != 9 {
		t.Error("an unsplit load is not whole")
	}
}
