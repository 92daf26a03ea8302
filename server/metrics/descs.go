package metrics

import "github.com/prometheus/client_golang/prometheus"

// described is a metric that is built at each scrape.
type described struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name, help string, labels ...string) described {
	return described{prometheus.NewDesc("leafd_"+name, help, labels, nil), prometheus.GaugeValue}
}

func counter(name, help string, labels ...string) described {
	return described{prometheus.NewDesc("leafd_"+name, help, labels, nil), prometheus.CounterValue}
}

//nolint:gochecknoglobals // names and texts, never written to
var (
	descReady = gauge("ready", "1 while GET /readyz answers 200.")

	descWorkerInfo  = gauge("worker_info", "1; its labels identify this daemon.", "worker", "node", "layout", "cluster")
	descWorkerState = gauge("worker_state", "1 for the state that the worker is in.", "state")

	descCeiling        = gauge("ceiling_distance_seconds", "Time until snowflake IDs end without another record.")
	descLease          = gauge("lease_distance_seconds", "Time until snowflake IDs end without ZooKeeper.")
	descClosed         = gauge("workers_closed_until_seconds", "After a loss of data, Unix time before which new daemons get no worker ID; else 0.")
	descReportAge      = gauge("report_age_seconds", "Time since the clock was last recorded.", "to")
	descReports        = counter("reports_total", "Records of the clock that were taken.", "to")
	descReportFailures = counter("report_failures_total", "Records of the clock that failed.", "to")

	descSteps      = counter("clock_steps_total", "Steps of the wall clock by more than 5 ms.", "direction")
	descOffset     = gauge("clock_offset_seconds", "How far a peer's clock is ahead of ours; the 50 farthest.", "peer")
	descEstimate   = gauge("clock_offset_estimate_seconds", "How far the peers' clocks are ahead of ours.")
	descThreshold  = gauge("clock_offset_threshold_seconds", "How far our clock may be off its peers'.")
	descPeers      = gauge("clock_peers", "Peers at the last look, by whether they told their clock.", "answered")
	descVerdict    = gauge("clock_verdict", "1 for what the last look at the peers' clocks said of ours.", "verdict")
	descPeersAge   = gauge("clock_check_age_seconds", "Time since the peers were last asked for their clocks.")
	descWaits      = counter("generator_waits_total", "Waits for a snowflake ID.", "reason")
	descRefusals   = counter("generator_refusals_total", "Calls for snowflake IDs that got none.", "reason")
	descLayoutLeft = gauge("layout_remaining_seconds", "Time until the time bits of snowflake IDs are used up.")

	descSession  = gauge("zookeeper_session_state", "1 for the state that the session with ZooKeeper is in.", "state")
	descConnects = counter("zookeeper_connects_total", "Connections to ZooKeeper servers.")
	descExpiries = counter("zookeeper_session_expiries_total", "Sessions that ZooKeeper has ended.")

	descTags        = gauge("segment_tags", "Tags in memory: those that were asked for since the start.")
	descTagsFailing = gauge("segment_tags_failing", "Tags whose last fetch failed.")
	descTagsEmpty   = gauge("segment_tags_empty", "Tags in use that have no ID in memory.")
	descGuarded     = gauge("segment_guarded", "1 while ranges are guarded by ZooKeeper.")
	descBehind      = gauge("segment_guard_behind", "1 while ranges are in use that ZooKeeper does not know yet.")
	descUnguarded   = counter("segment_unguarded_fetches_total", "Ranges that were fetched while ZooKeeper was away.")
	descConflicts   = counter("segment_guard_conflicts_total", "Writes of a high mark that came after another daemon's.")
	descGivenUp     = counter("segment_ranges_given_up_total", "Ranges that were given up unused.")
	descIssued      = counter("segment_ids_issued_total", "IDs taken by tag, also for requests that then failed; the others together are tag=\"_other\".", "tag")
	descRemaining   = gauge("segment_remaining_seconds", "How long the IDs in memory last; the 50 tags most in danger.", "tag")
	descStep        = gauge("segment_step", "IDs that the next fetch asks for; the same tags.", "tag")
	descFailing     = gauge("segment_failed_attempts", "Failed attempts since the last range; the same tags.", "tag")
)
