package worker

import "fmt"

// CheckStandalone returns ErrForeign where r is not the record of a standalone daemon with that
// worker ID: of a registry's, or of another worker ID.
func CheckStandalone(r Record, workerID int64) error {
	switch {
	case r.Cluster != "":
		return fmt.Errorf("%w: the record is of ZooKeeper's cluster %s, which gave it worker %d: set --zk, or take another data directory",
			ErrForeign, r.Cluster, r.WorkerID)
	case r.WorkerID != NoWorkerID && r.WorkerID != workerID:
		return fmt.Errorf("%w: the record is of worker %d, and this start is worker %d: give worker %d back, or take another data directory",
			ErrForeign, r.WorkerID, workerID, r.WorkerID)
	}
	return nil
}
