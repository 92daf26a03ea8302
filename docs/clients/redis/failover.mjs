// failover.mjs: daemons are functions that ask one daemon each. Each call begins at home, one drawn at random; one that failed is asked last for a second.
import { setTimeout as sleep } from 'node:timers/promises';

export function failover(daemons) {
  const home = Math.floor(Math.random() * daemons.length);
  const all = [...daemons.slice(home), ...daemons.slice(0, home)].map((ask) => ({ ask, leftOut: 0 }));
  return async (ms = 5000) => {
    for (const until = performance.now() + ms; ;) {
      let error;
      const now = performance.now();
      for (const daemon of [...all.filter((d) => d.leftOut <= now), ...all.filter((d) => d.leftOut > now)]) {
        try {
          const late = sleep(1000, undefined, { ref: false }).then(() => { throw new Error('no answer in a second'); });
          return await Promise.race([daemon.ask(), late]);
        } catch (e) {
          [error, daemon.leftOut] = [e, performance.now() + 1000];
        }
      }
      if (performance.now() > until) throw error;
      await sleep(50);
    }
  };
}
