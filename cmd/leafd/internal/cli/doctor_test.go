package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/doctor"
	"github.com/leafd/leafd/worker"
)

// What doctor says to do first is about the worst finding, that of the exit code, and not about
// the one that a start meets first.
func TestDoctorsFirstIsTheWorst(t *testing.T) {
	t.Parallel()
	findings := []doctor.Result{
		{Check: "zookeeper", Status: doctor.OK},
		{Check: "record", Status: doctor.Warn, Do: "nothing, where power was lost"},
		{Check: "access", Status: doctor.Warn, Do: "give all daemons one"},
		{Check: "zk-node", Status: doctor.Warn, Do: "see that --zk-root is right"},
		{Check: "alarm-webhook", Status: doctor.Fail, Do: "correct it"},
		{Check: "peers", Status: doctor.Fail, Do: "leafd clock check", Err: worker.ErrClockRefused},
	}
	require.Nil(t, doctorJSON(findings[:1]).First)
	require.Nil(t, doctorJSON(findings[:2]).First)
	for n := 3; n <= len(findings); n++ {
		require.Equal(t, findings[n-1].Check, doctorJSON(findings[:n]).First.Check)
	}
	require.Equal(t, doctor.OK, doctorJSON(findings[:1]).Status)
	require.Equal(t, doctor.Warn, doctorJSON(findings[:4]).Status)
	require.Equal(t, doctor.Fail, doctorJSON(findings).Status)
	require.Equal(t, ExitOK, doctorJSON(findings[:4]).ExitCode)
	require.Equal(t, ExitFailure, doctorJSON(findings[:5]).ExitCode)
	require.Equal(t, ExitClock, doctorJSON(findings).ExitCode)
	require.ErrorContains(t, doctorJSON(findings).failed, "see peers")
}
