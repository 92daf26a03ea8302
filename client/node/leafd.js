// IDs of leafd daemons, fetched ahead, so that most calls touch no network. It keeps:
//
//  1. An ID is handed out once: it is taken from what the process holds, which no other process shares.
//  2. No ID of a response is used before all of it was checked: as many IDs as were asked for, growing. A response
//     with an Age header, or that begins as a recent one did, comes from a cache and is refused.
//  3. A retry is a new request. What the earlier one may still bring is never used.
//  4. At most maxAhead IDs of a source are held: a crash loses no more.
//  5. A snowflake ID is handed out at most maxAge after the request for it was sent.
//  6. A failure reaches a caller only where waiting can't help, such as an unknown tag, or once its time is over.
//  7. Each fetch begins at the source's home, a daemon drawn at random in each process. A daemon without an answer
//     is asked last for a second, one that refuses with a 503 or 429 not during its Retry-After, unless it's the only
//     one, behind which others may be, and no 429. Each address of a name is a daemon.
import dns from 'node:dns/promises';
import http from 'node:http';
import https from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';

const leftOut = 1000; // ms
const snowflakeAhead = 1000; // ms, since their times grow old
const lookupEvery = 5000; // ms
const lookupPatience = 100; // ms that a request waits for it
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
  #client; #path; #time; #maxAge; #window; #ranks = new Map(); // of daemons: the first is home
  #held = []; #count = 0; // ranges, each with the time at which it was asked for; IDs in them
  #waiting = []; #running = false; #rest = 0; // calls; fetches; doesn't before
  #low = 0; #rate; #taken = 0; #seen = now(); // so few left have more fetched; of use, IDs a ms; handed out since then
  #refused = new Map(); #firsts = []; #limit; #failure; // daemons not asked until then; of the last responses; largest batch

  constructor(client, path, time, maxAge) {
    [this.#client, this.#path, this.#time, this.#maxAge, this.#window] = [client, path, time, maxAge, Math.min(time, longestWindow)];
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
    if (!Number.isInteger(n) || n < 1 || n > this.#client.maxAhead) throw new RangeError(`leafd: n is ${n}: want 1 to maxAhead`);
    const ids = this.#take(n);
    if (ids === undefined) return this.#wait(n, timeout);
    const time = now();
    if (time >= this.#rest && (this.#count <= this.#low || time - this.#seen > this.#window)) this.#run();
    return ids;
  }

  // #take takes n IDs, or returns undefined where fewer are held that are young enough.
  #take(n) {
    while (this.#held.length > 0 && now() - this.#held[0].at > this.#maxAge) {
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
        reject(new LeafdError('timeout', `no ID of ${this.#path} in ${timeout} ms`, { cause: this.#failure }));
      }, timeout);
      this.#waiting.push(call);
      this.#run();
    });
  }

  // #serve gives the calls that wait what is held, in their order. One that needs more than that keeps no other waiting.
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
      const at = now();
      try {
        this.#held.push(...(await this.#fetch(n)).map((range) => ({ ...range, at })));
        this.#count += n;
        this.#serve();
      } catch (e) {
        if (e.code === 'bad_count' && n > 1) this.#limit = n >> 1; // the daemons' --max-batch, or --max-range, is smaller
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
    this.#rest = now() + leftOut;
    if (this.#waiting.length > 0) await sleep(50);
    return this.#waiting.length > 0;
  }

  // #fetch asks the daemons for n IDs. It throws the last failure, a final one where no daemon did better.
  async #fetch(n) {
    const client = this.#client;
    const daemons = await client.daemons();
    const time = now();
    for (const { name } of daemons) if (!this.#ranks.has(name)) this.#ranks.set(name, Math.random());
    const rank = ({ name }) => Number((client.leftOut.get(name) ?? 0) > time) + this.#ranks.get(name);
    let failed;
    for (const daemon of daemons.sort((a, b) => rank(a) - rank(b))) {
      if ((this.#refused.get(daemon.name) ?? 0) > now()) continue;
      try {
        const ranges = await client.ask(daemon, this.#path, n, this.#firsts);
        this.#firsts = [...this.#firsts.slice(1 - recent), ranges[0].first];
        return ranges;
      } catch (e) {
        if (e.code === 'bad_count' && n > 1) throw e;
        client.failed(e);
        if (!failed || !e.final) failed = e;
        if (e.status === 0) client.leftOut.set(daemon.name, now() + leftOut);
        else if (!e.final) this.#refused.set(daemon.name, now() + Math.max(daemons.length > 1 || e.status === 429 ? e.retryAfter : 0, 100));
      }
    }
    throw failed ?? this.#failure ?? new LeafdError('unreachable', 'each daemon is left out');
  }
}

export class Client {
  leftOut = new Map(); // daemons, until when they are asked last
  #headers;
  #daemons = new Map(); // by address of the configuration
  #lookedUp = -Infinity; #lookup;

  constructor({ addresses, ahead = 10_000, maxAhead = 20_000, maxAge = 10_000, timeout = 5000, requestTimeout = 1000, token, tls, failed = () => {} }) {
    Object.assign(this, { addresses, ahead, maxAhead, maxAge, timeout, requestTimeout, tls, failed });
    if (!addresses?.length || !(Math.min(ahead, timeout, requestTimeout) > 0 && maxAhead >= 2 && maxAge >= requestTimeout)) {
      throw new RangeError('leafd: want addresses, times above 0, maxAhead from 2, and maxAge from requestTimeout');
    }
    for (const address of addresses) {
      const url = new URL(address);
      const { protocol, hostname, search, hash, username } = url;
      if (!/^https?:$/.test(protocol) || search || hash || username) throw new TypeError(`leafd: address ${address}: want a URL such as http://10.0.0.5:8080`);
      this.#daemons.set(address, [{ name: address, url, host: hostname.replace(/[[\]]/g, '') }]);
    }
    this.#headers = { Accept: 'application/json', 'Cache-Control': 'no-store', ...(token && { Authorization: `Bearer ${token}` }) };
  }

  snowflake(key) {
    return new Source(this, `/api/snowflake/get/${encodeURIComponent(key)}`, Math.min(this.ahead, snowflakeAhead), this.maxAge);
  }

  segment(tag) {
    return new Source(this, `/api/segment/get/${encodeURIComponent(tag)}`, this.ahead, Infinity);
  }

  // daemons resolves to the daemons: each address of a name, looked up again now and then; until it is, the name itself.
  async daemons() {
    if (now() - this.#lookedUp >= lookupEvery) {
      this.#lookedUp = now();
      this.#lookup = Promise.all([...this.#daemons].map(async ([address, [{ url }]]) => {
        const name = url.hostname.replace(/[[\]]/g, '');
        const hosts = new Set((await dns.lookup(name, { all: true }).catch(() => [])).map((found) => found.address));
        const daemons = Array.from(hosts, (host) => ({ name: host === name ? address : `${address} (${host})`, url, host }));
        if (daemons.length > 0) this.#daemons.set(address, daemons); // else those from before stay
      }));
    }
    await Promise.race([this.#lookup, sleep(lookupPatience, undefined, { ref: false })]);
    return [...this.#daemons.values()].flat();
  }

  async ask(daemon, path, n, firsts) {
    const address = daemon.name;
    const { status, headers, body } = await this.#post(daemon, `${path}?as=ranges&n=${n}`).catch((cause) => {
      throw new LeafdError(cause.name === 'AbortError' ? 'timeout' : 'unreachable', cause.message, { address, cause });
    });
    let reply, ranges;
    try {
      reply = JSON.parse(body);
      ranges = reply.ranges?.map(({ first, last }) => ({ first: BigInt(first), last: BigInt(last) })) ?? [];
    } catch (cause) {
      throw new LeafdError('bad_response', `status ${status}: ${body.slice(0, 80)}`, { address, cause });
    }
    if (status !== 200 && typeof reply?.code === 'string') {
      throw new LeafdError(reply.code, reply.message, { address, status, retryAfter: Math.min(Number(headers['retry-after']) || 0, 30) * 1000 });
    }
    const growing = ranges.every(({ first, last }, i) => first <= last && first > (i > 0 ? ranges[i - 1].last : -1n));
    if (status !== 200 || !growing || ranges.reduce((sum, { first, last }) => sum + last - first + 1n, 0n) !== BigInt(n)) {
      throw new LeafdError('bad_response', `status ${status}, not the ${n} IDs asked for: ${body.slice(0, 80)}`, { address });
    }
    if (headers.age !== undefined || firsts.includes(ranges[0].first)) {
      throw new LeafdError('bad_response', 'a cached response: IDs must not be cached', { address });
    }
    return ranges;
  }

  // #post follows no redirect, and keeps no connection, which a daemon may have closed. TLS checks the name in Host.
  #post({ url, host }, path) {
    return new Promise((resolve, reject) => {
      const headers = { ...this.#headers, Host: url.host };
      const target = { host, port: url.port, path: url.pathname.replace(/\/+$/, '') + path };
      const options = { ...this.tls, ...target, method: 'POST', headers, agent: false, signal: AbortSignal.timeout(this.requestTimeout) };
      const request = (url.protocol === 'https:' ? https : http).request(options, (response) => {
        const parts = [];
        let size = 0;
        response.on('error', reject).on('data', (part) => {
          parts.push(part);
          if ((size += part.length) > 1 << 22) request.destroy(new Error('the response is too long'));
        }).on('end', () => resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(parts).toString() }));
      });
      request.on('error', reject).end();
    });
  }
}
