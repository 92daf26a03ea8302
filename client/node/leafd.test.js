// The client against real daemons: LEAFD is the daemon's program. `make test-clients`.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import dns from 'node:dns/promises';
import { createServer as createHTTP } from 'node:http';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { Client, LeafdError } from 'leafd';

const worker = (id) => Number((id >> 12n) & 1023n);
const code = (expected, cause) => (e) => {
  assert(e instanceof LeafdError);
  assert.deepEqual([e.code, e.cause?.code], [expected, cause], e);
  return true;
};

// resolve has leafd-pods resolve to the addresses, or not.
const resolve = (t, ...addresses) => t.mock.method(dns, 'lookup', async (name) => {
  assert.equal(name, 'leafd-pods');
  if (addresses.length === 0) throw new Error('no such name');
  return addresses.map((address) => ({ address, family: 4 }));
});

async function listen(t, server) {
  while (!server.listening) { // below the ports of outgoing connections, so that a daemon that starts later gets it
    server.listen(11000 + Math.floor(Math.random() * 21000), '127.0.0.1');
    await Promise.race([once(server, 'listening'), once(server, 'error')]).catch(() => {});
  }
  t.after(() => server.close());
  return `127.0.0.1:${server.address().port}`;
}

class Daemon {
  constructor(t, address, id, flags) {
    const dir = mkdtempSync(join(tmpdir(), 'leafd-'));
    t.after(async () => {
      await this.kill();
      rmSync(dir, { recursive: true });
    });
    this.url = `http${flags.includes('--tls-cert') ? 's' : ''}://${address}`;
    this.args = ['serve', '--listen', address, '--data-dir', join(dir, 'data'), '--worker-id', id, ...flags];
    this.log = join(dir, 'log');
  }

  async start() {
    const log = openSync(this.log, 'w');
    this.process = spawn(process.env.LEAFD, this.args, { stdio: ['ignore', log, log] });
    while (!readFileSync(this.log, 'utf8').includes('issuing snowflake IDs')) {
      assert.equal(this.process.exitCode, null, readFileSync(this.log, 'utf8'));
      await sleep(10);
    }
    return this;
  }

  async kill(signal = 'SIGKILL') {
    this.process?.kill(signal);
    if (signal !== 'SIGSTOP' && this.process?.exitCode === null && this.process.signalCode === null) await once(this.process, 'exit');
  }
}

async function daemon(t, id = 0, ...flags) {
  const server = createServer();
  const address = await listen(t, server);
  await new Promise((resolve) => { server.close(resolve); });
  return new Daemon(t, address, id, flags);
}

test('a killed and a frozen daemon', async (t) => {
  const daemons = await Promise.all([0, 1, 2].map(async (i) => (await daemon(t, i)).start()));
  const orders = new Client({ addresses: daemons.map((d) => d.url), requestTimeout: 500 }).snowflake('order');
  const [ids, gone] = [[], new Set()];
  const calls = [1, 2, 3].map(async (n) => {
    while (gone.size < 2 || gone.has(worker(ids.at(-1)))) ids.push(...await orders.nextN(n));
  });
  for (const signal of ['SIGKILL', 'SIGSTOP']) {
    while (ids.length === 0 || gone.has(worker(ids.at(-1)))) await sleep(10);
    const last = worker(ids.at(-1));
    await daemons[last].kill(signal);
    gone.add(last);
  }
  await Promise.all(calls);
  assert.equal(new Set(ids).size, ids.length);
});

test('a daemon that hangs is left out for a second', async (t) => {
  let asked = 0;
  const hangs = createServer(() => { asked++; });
  const client = new Client({ addresses: [`http://${await listen(t, hangs)}`, (await (await daemon(t)).start()).url], requestTimeout: 2000, maxAhead: 2 });
  let time = performance.now();
  t.mock.method(performance, 'now', () => time);
  while (asked === 0) await client.snowflake('order').next(); // its home
  for (let i = 0; i < 100; i++) await client.snowflake('order').next();
  assert.equal(asked, 1);
  time += 1001;
  while (asked === 1) await client.snowflake('order').next();
});

test('each address of a name is a daemon: a call meets one that is frozen once', async (t) => {
  const first = await daemon(t);
  const { port } = new URL(first.url);
  const daemons = [first, new Daemon(t, `127.0.0.2:${port}`, 1, []), new Daemon(t, `127.0.0.3:${port}`, 2, [])];
  await Promise.all(daemons.map((d) => d.start()));
  resolve(t, '127.0.0.1', '127.0.0.2', '127.0.0.3');
  const failures = [];
  const client = new Client({ addresses: [`http://leafd-pods:${port}`], maxAhead: 2, failed: (e) => failures.push(e) });
  const sources = Array.from({ length: 40 }, () => client.snowflake('order'));
  const homes = [];
  for (const s of sources) homes.push(worker((await s.nextN(2))[1]));
  assert.deepEqual(new Set(homes), new Set([0, 1, 2]));
  await first.kill('SIGSTOP');
  while (failures.length < 3) for (const s of sources) await s.nextN(2, 1.9 * client.requestTimeout);
  assert.deepEqual([failures[0].code, failures[0].address], ['timeout', `http://leafd-pods:${port} (127.0.0.1)`]);
});

test('addresses come and go', async (t) => {
  let time = 0;
  t.mock.method(performance, 'now', () => time);
  const client = new Client({ addresses: ['http://leafd-pods', 'http://leafd-pods:81'] });
  const known = new Map();
  const hosts = async () => (await client.daemons()).map((d) => {
    assert.equal(known.get(d.address) ?? d, d); // what is known of it stays
    known.set(d.address, d);
    return d.host;
  }).join();
  for (const [addresses, found] of [[['a', 'b'], 'a,b,a,b'], [['b', 'c'], 'b,c,b,c'], [[], 'b,c,b,c']]) {
    resolve(t, ...addresses);
    assert.equal(await hosts(), found);
    time += 5000;
  }
  await hosts();
  resolve(t, 'd');
  assert.equal(await hosts(), 'b,c,b,c'); // looked up again after a while
});

test('homes at random, and again once they are back', async (t) => {
  const daemons = await Promise.all([0, 1].map(async (i) => (await daemon(t, i)).start()));
  const client = new Client({ addresses: daemons.map((d) => d.url), requestTimeout: 5000, timeout: 10_000, maxAhead: 2 });
  const sources = Array.from({ length: 30 }, () => client.snowflake('order'));
  const fetched = async () => {
    await Promise.all(sources.map((s) => s.nextN(2))); // those that it held
    return (await Promise.all(sources.map((s) => s.nextN(2)))).map((ids) => worker(ids[1]));
  };
  const homes = await fetched();
  assert.deepEqual(new Set(homes), new Set([0, 1]));
  assert.deepEqual(await fetched(), homes);
  await daemons[0].kill('SIGTERM');
  assert.deepEqual(new Set(await fetched()), new Set([1]));
  await daemons[0].start();
  for (const d of await client.daemons()) d.leftOut = 0;
  assert.deepEqual(await fetched(), homes);
});

test('the only daemon comes back', async (t) => {
  const only = await daemon(t);
  const orders = new Client({ addresses: [only.url] }).snowflake('order');
  await assert.rejects(orders.next(200), code('timeout', 'unreachable'));
  await only.start();
  orders.next().then(() => {});
  assert((await orders.next()) > 0n);
});

test('codes', async (t) => {
  const client = new Client({ addresses: [(await (await daemon(t)).start()).url] });
  await assert.rejects(client.segment('none').next(), (e) => e.final && code('unknown_key', undefined)(e));
  assert.deepEqual(await client.segment('leaf-segment-test').nextN(3), [1n, 2n, 3n]);
  const failures = [];
  const limited = new Client({ addresses: [(await (await daemon(t, 0, '--rate-limit', '100')).start()).url], failed: (e) => failures.push(e.code) }).snowflake('order');
  const begun = performance.now();
  t.mock.method(performance, 'now', () => begun);
  await assert.rejects(async () => { for (let i = 0; i < 400; i++) await limited.next(500); }, (e) => e.cause.retryAfter === 1000 && code('timeout', 'rate_limited')(e));
  assert.deepEqual(failures, ['rate_limited']); // asked once in its Retry-After
  for (const addresses of [undefined, [], ['127.0.0.1:8080'], ['http://a?b']]) assert.throws(() => new Client({ addresses }));
  await assert.rejects(limited.nextN(0), RangeError);
});

test('what is no whole response of leafd is not used', async (t) => {
  const [responses, failures, hosts] = [[], [], new Set()];
  const server = createHTTP(async (request, response) => {
    hosts.add(request.headers.host);
    while (responses.length === 0) await sleep(1);
    const [body, headers] = responses.shift();
    response.writeHead(body.includes('code') ? 503 : 200, headers).end(body);
  });
  const address = (await listen(t, server)).replace('127.0.0.1', 'leafd-pods');
  resolve(t, '127.0.0.1');
  const orders = new Client({ addresses: [`http://${address}`], maxAhead: 2, failed: (e) => failures.push(e.code) }).segment('order');
  const ranges = (...pairs) => JSON.stringify({ ranges: pairs.map(([first, last]) => ({ first: `${first}`, last: `${last}` })) });
  for (const [i, wrong] of [
    [''], ['1-2\n'], ['['.repeat(100_000)], ['null'], [ranges()], [ranges([1, 1])], [ranges([1, 3])], [ranges([2, 1])], [ranges([3, 3], [1, 1])], [ranges([3, 3], [3, 3])],
    [ranges([-1, 0])], [ranges([1, 2]).slice(0, -9)], [ranges([1, 2]), { Age: '3' }], [ranges([120, 120], [122, 122])],
  ].entries()) {
    responses.push(wrong, [ranges([10 * i, 10 * i], [10 * i + 2, 10 * i + 2])]); // the last wrong one repeats the last
    assert.deepEqual(await orders.nextN(2), [10n * BigInt(i), 10n * BigInt(i) + 2n]);
    assert.deepEqual(failures.splice(0), ['bad_response'], wrong[0]);
  }
  responses.push(['{"code":"not_ready","message":""}', { 'Retry-After': '30' }], [ranges([200, 201])]); // not for the others behind the only address
  assert.deepEqual(await orders.nextN(2), [200n, 201n]);
  responses.push(['']); // for the request that fetches ahead
  assert.deepEqual(hosts, new Set([address]));
});

test('the IDs ahead last for a time at the rate of use, and are young', async (t) => {
  const only = await (await daemon(t)).start();
  let [time, asking] = [performance.now(), 0];
  t.mock.method(performance, 'now', () => time);
  const { ask } = Client.prototype;
  t.mock.method(Client.prototype, 'ask', function count(...args) {
    asking++;
    return ask.apply(this, args).finally(() => { asking--; });
  });
  async function use(source, rate, seconds) {
    for (let i = 0; i < rate * seconds; i++) {
      time += 1000 / rate;
      await source.next();
      do await setImmediate(); while (asking > 0);
    }
  }
  let source;
  for (const [kind, settings, low, high] of [
    ['segment', {}, 900, 2100], ['snowflake', {}, 90, 210], ['segment', { maxAhead: 1000 }, 450, 1000], ['segment', { ahead: 3_600_000, maxAhead: 1 << 20 }, 300_000, 800_000],
  ]) {
    source = new Client({ addresses: [only.url], ...settings })[kind]('leaf-segment-test');
    await use(source, 100, 40);
    assert(low <= source.ahead && source.ahead <= high, `${kind}: ${source.ahead}`);
  }
  const orders = new Client({ addresses: [only.url] }).snowflake('order');
  const first = await orders.next();
  time += 10_100;
  assert((await orders.next()) - first > 64n);
  orders.drop();
  assert.equal(orders.ahead, 0);
  await only.kill();
  const more = source.nextN(source.ahead + 1, 1000);
  await source.nextN(100); // what is held is for the calls that it is enough for
  await assert.rejects(more, code('timeout', 'unreachable'));
  const held = source.ahead;
  await use(source, 100, 10);
  assert.equal(source.ahead, held - 1000);
});

test('TLS and tokens', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'leafd-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const [certFile, keyFile, tokens] = ['cert.pem', 'key.pem', 'tokens.yaml'].map((name) => join(dir, name));
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '1', '-subj', '/CN=leafd',
    '-addext', 'subjectAltName=DNS:leafd-pods', '-keyout', keyFile, '-out', certFile], { stdio: 'ignore' });
  const [cert, key, token] = [readFileSync(certFile), readFileSync(keyFile), 'a-token-of-the-shop'];
  writeFileSync(tokens, `- name: shop\n  sha256: ${createHash('sha256').update(token).digest('hex')}\n  ids: order\n`);
  const addresses = [(await (await daemon(t, 0, '--tls-cert', certFile, '--tls-key', keyFile, '--tls-client-ca', certFile, '--tokens-file', tokens)).start()).url.replace('127.0.0.1', 'leafd-pods')];
  resolve(t, '127.0.0.1');
  for (const tls of [undefined, { ca: cert }]) {
    await assert.rejects(new Client({ addresses, tls }).snowflake('order').next(300), code('timeout', 'unreachable'));
  }
  const tls = { ca: cert, cert, key };
  await assert.rejects(new Client({ addresses, tls }).snowflake('order').next(), code('unauthorized'));
  await new Client({ addresses, tls, token }).snowflake('order').next();
});
