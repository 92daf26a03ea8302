package mariadbtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(StopAfter(m)) }

// TestDataOutlivesTheProcess takes a server through every end it can have.
func TestDataOutlivesTheProcess(t *testing.T) {
	server := Shared(t)
	db := server.DB(t, server.NewDatabase(t))
	_, err := db.ExecContext(t.Context(), "CREATE TABLE numbers (n INT) ENGINE=InnoDB")
	require.NoError(t, err)
	address := server.Addr()
	for i, end := range []func(testing.TB){server.Kill, server.Stop, server.Kill} {
		_, err := db.ExecContext(t.Context(), "INSERT INTO numbers VALUES (?)", i)
		require.NoError(t, err)
		end(t)
		end(t) // there is none any more, and that is in order
		require.Error(t, db.PingContext(t.Context()))
		server.Restart(t)
		var rows int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM numbers").Scan(&rows))
		require.Equal(t, i+1, rows)
		require.Equal(t, address, server.Addr())
	}
}

func TestPausedServerAnswersAfterResume(t *testing.T) {
	server := Shared(t)
	db := server.DB(t, server.NewDatabase(t))
	require.NoError(t, db.PingContext(t.Context()))
	server.Pause(t)
	answered := make(chan error, 1)
	go func() { answered <- db.PingContext(t.Context()) }()
	require.Never(t, func() bool { return len(answered) > 0 }, 200*time.Millisecond, 50*time.Millisecond)
	server.Resume(t)
	require.NoError(t, <-answered)
	server.Pause(t)
	server.Stop(t) // of a paused one
}

func TestSharedIsOne(t *testing.T) {
	first, second := Shared(t), Shared(t)
	require.Same(t, first, second)
	require.NotEqual(t, first.NewDatabase(t), second.NewDatabase(t))
}
