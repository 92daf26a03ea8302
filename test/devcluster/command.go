package main

import (
	"context"
	"slices"
	"strings"
	"syscall"
)

const help = `What can be typed here, NAME being zookeeper, mariadb, leafd1, …:
  kill NAME      a crash: SIGKILL
  freeze NAME    a hang: SIGSTOP
  thaw NAME      the end of it: SIGCONT
  restart NAME   start it on its port and data again; what runs is stopped in order before
  status         what each part does
Signals from another shell do the same. Ctrl-C stops all of it.
`

// command does what was typed.
func (c *cluster) command(ctx context.Context, words []string) {
	switch {
	case len(words) == 0:
	case len(words) == 1 && words[0] == "help":
		c.out.write(help)
	case len(words) == 1 && words[0] == "status":
		for _, p := range c.parts {
			c.out.say("%-9s at %s, process %d, %s", p.name, p.address, p.process.Pid(), p.state)
		}
	case len(words) == 2 && slices.Contains([]string{"kill", "freeze", "thaw", "restart"}, words[0]):
		i := slices.IndexFunc(c.parts, func(p *part) bool { return p.name == words[1] })
		if i < 0 {
			c.out.say("no part is called %s; status lists them", words[1])
			return
		}
		if err := c.do(ctx, words[0], c.parts[i]); err != nil {
			c.out.say("%s: %v", strings.Join(words, " "), err)
		}
	default:
		c.out.say("%s: not known; help lists what is", strings.Join(words, " "))
	}
}

// do does one of the four. What becomes of a signal is seen and said by the watcher.
func (c *cluster) do(ctx context.Context, what string, p *part) error {
	switch {
	case what == "restart":
		return c.restart(ctx, p)
	case p.process.Ended():
		c.out.say("%s has ended; \"restart %s\" brings it back", p.name, p.name)
		return nil
	case what == "kill":
		return p.process.Signal(syscall.SIGKILL)
	case what == "freeze":
		return p.process.Signal(syscall.SIGSTOP)
	default:
		return p.process.Signal(syscall.SIGCONT)
	}
}

// restart starts a part again, on its address and data, and after an end in order where it
// runs. When that fails the part has ended, and may be restarted.
func (c *cluster) restart(ctx context.Context, p *part) error {
	p.unwatch()
	p.state = ended
	if !p.process.Ended() {
		c.out.say("stopping %s", p.name)
		if err := p.stop(c.o.stopWithin); err != nil {
			c.out.say("%v", err) // it has ended all the same
		}
	}
	process, err := p.start()
	if err != nil {
		return err
	}
	p.process = process
	c.out.say("%s is started again, process %d", p.name, process.Pid())
	c.watch(ctx, p)
	return nil
}
