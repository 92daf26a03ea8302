package proctest

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// No address is given twice: not in one process, and not in two that run at once.
func TestAddressesAreGivenOutOnce(t *testing.T) {
	const each = blockPorts + 50
	var pools [2]portPool // as two processes have them
	var mu sync.Mutex
	var asking sync.WaitGroup
	seen := map[string]bool{}
	for i := range 4 {
		asking.Go(func() {
			for range each {
				address, err := pools[i%2].free()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				seen[address] = true
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	require.Len(t, seen, 4*each)
	for i := range pools {
		for _, block := range pools[i].blocks {
			require.NoError(t, block.Close())
		}
	}
}
