package nemesis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const daemons = 4

func planner(t *testing.T, seed uint64, mix map[Kind]int, short bool) *Planner {
	t.Helper()
	p, err := New(seed, daemons, mix, short)
	require.NoError(t, err)
	return p
}

func TestOneSeedOnePlan(t *testing.T) {
	a, b, other := planner(t, 7, nil, false), planner(t, 7, nil, false), planner(t, 8, nil, false)
	differs := false
	for range 200 {
		round := a.Next()
		require.Equal(t, round, b.Next())
		differs = differs || round.String() != other.Next().String()
	}
	require.True(t, differs)
}

// Nothing is promised where two misfortunes meet that the documents keep apart, so
// no round has them.
func TestRounds(t *testing.T) {
	byKind := map[Kind]trait{}
	for _, tr := range traits() {
		byKind[tr.kind] = tr
	}
	for _, short := range []bool{false, true} {
		p := planner(t, 3, nil, short)
		sizes, kinds := map[int]int{}, map[Kind]int{}
		for range 400 {
			round := p.Next()
			require.NotEmpty(t, round)
			sizes[len(round)]++
			var taken []string
			for _, f := range round {
				tr := byKind[f.Kind]
				kinds[f.Kind]++
				require.False(t, tr.solo && len(round) > 1, "%s", round)
				claims := tr.claims(f, daemons)
				require.False(t, meet(taken, claims), "%s", round)
				taken = append(taken, claims...)
				require.GreaterOrEqual(t, f.Daemon, AllDaemons)
				require.Less(t, f.Daemon, daemons)
				require.LessOrEqual(t, f.Hold, tr.most)
				if short && !tr.solo {
					require.LessOrEqual(t, f.Hold, max(shortHold, 8*time.Second))
				} else {
					require.GreaterOrEqual(t, f.Hold, tr.least)
				}
			}
		}
		require.Len(t, kinds, len(Kinds()), "each has its turn")
		require.Greater(t, sizes[2]+sizes[3], 50, "several at once")
	}
}

func TestMix(t *testing.T) {
	mix, err := ParseMix("kill -9=3; clock back")
	require.NoError(t, err)
	require.Equal(t, map[Kind]int{Kill: 3, ClockBack: 1}, mix)
	p := planner(t, 1, mix, true)
	for range 100 {
		for _, f := range p.Next() {
			require.Contains(t, mix, f.Kind)
		}
	}
	none, err := ParseMix("")
	require.NoError(t, err)
	require.Nil(t, none)
	for name, text := range map[string]string{"weight": "kill -9=many", "negative": "kill -9=-1"} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseMix(text)
			require.Error(t, err)
		})
	}
	for name, mix := range map[string]map[Kind]int{"unknown": {"sunshine": 1}, "nothing": {Kill: 0}} {
		t.Run(name, func(t *testing.T) {
			_, err := New(1, daemons, mix, false)
			require.Error(t, err)
		})
	}
}

func TestOfDaemons(t *testing.T) {
	require.True(t, OfDaemons(Kill))
	require.True(t, OfDaemons(ZooKeeperCut))
	require.False(t, OfDaemons(Emptied))
}
