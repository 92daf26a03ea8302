// IDs of leafd daemons, fetched ahead, so that most calls touch no network. It keeps:
//
//  1. An ID is handed out once: it is taken from what the process holds, which no other shares.
//  2. No ID of a response is used before all of it was checked: as many IDs as asked for, growing,
//     no Age header, and another first ID than recent ones, so that it comes from no cache.
//  3. A retry is a new request. What the earlier one may still bring is never used.
//  4. At most maxAhead IDs of a source are held: a crash loses no more.
//  5. A snowflake ID is handed out at most maxAge after the request for it was sent.
//  6. A failure reaches a caller only where waiting can't help, or once its time is over.
//  7. A fetch begins at the source's home, a daemon drawn at random. One that fails is asked last
//     for a second or its Retry-After. Each address of a name is a daemon.
import dns from 'node:dns/promises';
import http from 'node:http';
import https from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';

const leftOut = 1000; // ms
const snowflakeAhead = 1000; // ms, since their times grow old
const [lookupEvery, lookupPatience] = [5000, 100]; // ms; that a request waits for it
const longestWindow = 10_000; // ms over which the rate of use is measured, at most
const firstBatch = 64; // IDs
const recent = 1024; // responses
const now = () => performance.now();

export class LeafdError extends Error {
  name = 'LeafdError';

  constructor(code, message, { address = '', status = 0, retryAfter = 0, cause } = {}) {
    super(`${address} ${code}: ${message}`.trim(), { cause });
    Object.assign(this, { code, address, status, retryAfter });
  }

  get final() {
    return this.status >= 400 && this.status < 500 && ![408, 429].includes(this.status);
  }
}

class Source {
  #client; #path; #time; #maxAge; #window; #limit; // the last is the largest batch
  #ranks = new WeakMap(); #firsts = []; // of daemons, the first is home; of recent responses
  #held = []; #count = 0; // ranges, each with the time until which it may be used; IDs in them
  #waiting = []; #running = false; #rest = 0; #failure; // calls; fetches; not ahead until then
  #low = 0; #rate; #taken = 0; #seen = now(); // so few left have more fetched; IDs a ms; since then

  constructor(client, path, time, maxAge) {
    [this.#client, this.#path, this.#time, this.#maxAge] = [client, path, time, maxAge];
    this.#window = Math.min(time, longestWindow);
    this.#rate = firstBatch / 2 / time;
    this.#limit = client.maxAhead;
  }

  get ahead() {
    return this.#count;
  }

  drop() {
    [this.#held, this.#count] = [[], 0];
  }

  async next(timeout) {
    return (await this.nextN(1, timeout))[0];
  }

  async nextN(n, timeout = this.#client.timeout) {
    if (!Number.isInteger(n) || n < 1 || n > this.#client.maxAhead) {
      throw new RangeError(`leafd: n is ${n}: want 1 to maxAhead`);
    }
    const ids = this.#take(n);
    if (ids === undefined) return this.#wait(n, timeout);
    const time = now();
    const due = this.#count <= this.#low || time - this.#seen > this.#window;
    if (due && time >= this.#rest) this.#run();
    return ids;
  }

  // #take takes n IDs, or returns undefined where fewer are held that are young enough.
  #take(n) {
    while (this.#held.length > 0 && now() > this.#held[0].until) {
      const { first, last } = this.#held.shift();
      this.#count -= Number(last - first) + 1;
    }
    if (this.#count < n) return undefined;
    const ids = [];
    while (ids.length < n) {
      const range = this.#held[0];
      if (range.first === range.last) this.#held.shift();
      ids.push(range.first++);
    }
    this.#count -= n;
    this.#taken += n;
    return ids;
  }

  #wait(n, timeout) {
    return new Promise((resolve, reject) => {
      const call = { n, resolve, reject };
      call.timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(call), 1);
        const message = `no ID of ${this.#path} in ${timeout} ms`;
        reject(new LeafdError('timeout', message, { cause: this.#failure }));
      }, timeout);
      this.#waiting.push(call);
      this.#run();
    });
  }

  // #serve serves the calls that wait, in order; one that needs more than is held delays none.
  #serve() {
    this.#waiting = this.#waiting.filter((call) => {
      const ids = this.#take(call.n);
      if (ids === undefined) return true;
      clearTimeout(call.timer);
      call.resolve(ids);
      return false;
    });
  }

  // #wanted returns how many IDs to fetch now.
  #wanted() {
    const [time, most] = [now(), this.#client.maxAhead];
    const passed = Math.max(time - this.#seen, 1e-6);
    this.#rate += (this.#taken / passed - this.#rate) * -Math.expm1(-passed / this.#window);
    [this.#seen, this.#taken] = [time, 0];
    this.#low = Math.min(this.#rate * this.#time, most / 2);
    const owed = this.#waiting.reduce((sum, { n }) => sum + n, 0);
    if (owed === 0 && this.#count > this.#low) return 0;
    const want = Math.max(Math.ceil(2 * this.#low) + owed - this.#count, 1);
    return Math.min(want, Math.max(most - this.#count, 1), this.#limit);
  }

  async #run() {
    if (this.#running) return;
    this.#running = true;
    for (let n; (n = this.#wanted()) > 0;) {
      const until = now() + this.#maxAge;
      try {
        this.#held.push(...(await this.#fetch(n)).map((range) => ({ ...range, until })));
        this.#count += n;
        this.#serve();
      } catch (e) { // a bad_count: the daemons' --max-batch, or --max-range, is smaller
        if (e.code === 'bad_count' && n > 1) this.#limit = n >> 1;
        else if (!await this.#failed(e)) break;
      }
    }
    this.#running = false;
  }

  // #failed notes why a fetch failed, and returns whether to try again.
  async #failed(e) {
    this.#failure = e;
    for (const call of e.final ? this.#waiting.splice(0) : []) {
      clearTimeout(call.timer);
      call.reject(e);
    }
    this.#rest = now() + Math.max(e.retryAfter, leftOut);
    if (this.#waiting.length > 0) {
      const most = (await this.#client.daemons()).length > 1 ? leftOut : 100; // others behind it
      await sleep(Math.max(e.status === 429 ? e.retryAfter : Math.min(e.retryAfter, most), 50));
    }
    return this.#waiting.length > 0;
  }

  // #fetch asks the daemons for n IDs. It throws the last failure, a final one if none did better.
  async #fetch(n) {
    const [daemons, time] = [await this.#client.daemons(), now()];
    for (const d of daemons) if (!this.#ranks.has(d)) this.#ranks.set(d, Math.random());
    const rank = (d) => Number(d.leftOut > time) + this.#ranks.get(d);
    let failed;
    for (const daemon of daemons.sort((a, b) => rank(a) - rank(b))) {
      try {
        const ranges = await this.#client.ask(daemon, this.#path, n, this.#firsts);
        this.#firsts = [...this.#firsts.slice(1 - recent), ranges[0].first];
        return ranges;
      } catch (e) {
        if (e.code === 'bad_count' && n > 1) throw e;
        this.#client.failed(e);
        if (!failed || !e.final) failed = e;
        if (!e.final) daemon.leftOut = now() + Math.max(e.retryAfter, leftOut);
      }
    }
    throw failed;
  }
}

export class Client {
  #headers;
  #daemons = new Map(); // by address of the configuration
  #lookedUp = -Infinity; #lookup;

  constructor({
    addresses = [], ahead = 10_000, maxAhead = 20_000, maxAge = 10_000, timeout = 5000,
    requestTimeout = 1000, token, tls, failed = () => {},
  }) {
    Object.assign(this, { ahead, maxAhead, maxAge, timeout, requestTimeout, tls, failed });
    const positive = Math.min(ahead, timeout, requestTimeout) > 0;
    if (addresses.length === 0 || !(positive && maxAhead >= 2 && maxAge >= requestTimeout)) {
      throw new RangeError('leafd: want addresses, times > 0, maxAhead > 1, maxAge of a request');
    }
    for (const address of addresses) {
      const url = new URL(address);
      if (!/^https?:$/.test(url.protocol) || url.search || url.hash || url.username) {
        throw new TypeError(`leafd: address ${address}: want a URL such as http://10.0.0.5:8080`);
      }
      const name = url.hostname.replace(/[[\]]/g, '');
      this.#daemons.set(address, [{ address, url, name, host: name, leftOut: 0 }]);
    }
    this.#headers = { Accept: 'application/json', 'Cache-Control': 'no-store' };
    if (token) this.#headers.Authorization = `Bearer ${token}`;
  }

  snowflake(key) {
    const path = `/api/snowflake/get/${encodeURIComponent(key)}`;
    return new Source(this, path, Math.min(this.ahead, snowflakeAhead), this.maxAge);
  }

  segment(tag) {
    return new Source(this, `/api/segment/get/${encodeURIComponent(tag)}`, this.ahead, Infinity);
  }

  // daemons resolves to the addresses of names, or until they are looked up the names themselves.
  async daemons() {
    if (now() - this.#lookedUp >= lookupEvery) {
      this.#lookedUp = now();
      this.#lookup = Promise.all(Array.from(this.#daemons, (known) => this.#lookUp(...known)));
    }
    await Promise.race([this.#lookup, sleep(lookupPatience, undefined, { ref: false })]);
    return [...this.#daemons.values()].flat();
  }

  async #lookUp(address, known) {
    const { name } = known[0];
    const found = await dns.lookup(name, { all: true }).catch(() => []);
    if (found.length === 0) return; // those from before stay
    this.#daemons.set(address, Array.from(new Set(found.map((f) => f.address)), (host) => (
      known.find((d) => d.host === host)
        ?? { ...known[0], address: `${address} (${host})`, host, leftOut: 0 })));
  }

  async ask(daemon, path, n, firsts) {
    const { address } = daemon;
    const response = await this.#post(daemon, `${path}?as=ranges&n=${n}`).catch((cause) => {
      const code = cause.name === 'AbortError' ? 'timeout' : 'unreachable';
      throw new LeafdError(code, cause.message, { address, cause });
    });
    const { status, headers, body } = response;
    const bad = (why, cause) => {
      const message = `status ${status}, ${why}: ${body.slice(0, 80)}`;
      return new LeafdError('bad_response', message, { address, cause });
    };
    let reply, ranges;
    try {
      reply = JSON.parse(body);
      ranges = (reply.ranges ?? []).map((r) => ({ first: BigInt(r.first), last: BigInt(r.last) }));
    } catch (cause) {
      throw bad('no response of leafd', cause);
    }
    if (status !== 200 && typeof reply.code === 'string') {
      const retryAfter = Math.min(Number(headers['retry-after']) || 0, 30) * 1000;
      throw new LeafdError(reply.code, reply.message, { address, status, retryAfter });
    }
    let [end, count] = [-1n, 0n];
    for (const { first, last } of ranges) {
      if (first <= end || last < first) throw bad('IDs that do not grow');
      [end, count] = [last, count + last - first + 1n];
    }
    if (status !== 200 || count !== BigInt(n)) throw bad(`not the ${n} IDs asked for`);
    if (headers.age !== undefined || firsts.includes(ranges[0].first)) throw bad('cached');
    return ranges;
  }

  // #post follows no redirect, and keeps no connection, which a daemon may have closed.
  #post({ url, host }, path) {
    return new Promise((resolve, reject) => {
      const request = (url.protocol === 'https:' ? https : http).request({
        ...this.tls, host, port: url.port,
        method: 'POST', path: url.pathname.replace(/\/+$/, '') + path,
        headers: { ...this.#headers, Host: url.host }, // TLS checks the name in Host
        agent: false, signal: AbortSignal.timeout(this.requestTimeout),
      }, (response) => {
        const parts = [];
        let size = 0;
        response.on('error', reject).on('data', (part) => {
          parts.push(part);
          if ((size += part.length) > 1 << 22) request.destroy(new Error('a response too long'));
        }).on('end', () => {
          const { statusCode: status, headers } = response;
          resolve({ status, headers, body: Buffer.concat(parts).toString() });
        });
      });
      request.on('error', reject).end();
    });
  }
}
