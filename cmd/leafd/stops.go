package main

// mostNamed is how many stopped tags a log line names.
const mostNamed = 20

// sayStopped logs which tags are stopped at the start: whoever forgot them finds out.
func (d *daemon) sayStopped() {
	list := d.stops.List()
	if len(list) == 0 {
		return
	}
	var tags []string
	for _, stop := range list[:min(len(list), mostNamed)] {
		tags = append(tags, stop.Tag)
	}
	d.log.Warn().Int("stopped", len(list)).Strs("tags", tags).Msg("tags are stopped on this daemon, as they were when it ended: leafd segment start lets them run")
}
