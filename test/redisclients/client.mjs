// node-redis and ioredis against leafd: client.mjs PORT. IDs are text, since numbers of
// JavaScript end at 2^53.
import { createClient, RESP_TYPES } from 'redis';
import Redis from 'ioredis';
import assert from 'node:assert';

const port = Number(process.argv[2]);
const seen = new Set();
const take = (ids) => ids.forEach((id) => {
  assert.match(id, /^\d+$/);
  assert(!seen.has(id), id);
  seen.add(id);
});

for (const RESP of [2, 3]) {
  const client = await createClient({ socket: { port }, RESP, name: 'node', commandOptions: { typeMapping: { [RESP_TYPES.NUMBER]: String } } })
    .on('error', (e) => { throw e; }).connect();
  take([await client.incr('leaf-segment-test')]);
  take(await client.sendCommand(['LEAF.SEGMENT', 'leaf-segment-test', '100']));
  take(await Promise.all(Array.from({ length: 100 }, () => client.incr('leaf-segment-test'))));
  take(await client.sendCommand(['LEAF.SNOWFLAKE', 'order', '10']));
  await assert.rejects(client.incr('none'), /^Error: UNKNOWN_KEY|UNKNOWN_KEY/);
  await client.close();
}
const plain = await createClient({ socket: { port } }).connect(); // no type mapping
await plain.sendCommand(['LEAF.STRINGS', 'on']);
take([await plain.sendCommand(['LEAF.SNOWFLAKE', 'order'])]);
take(await plain.sendCommand(['LEAF.SNOWFLAKE', 'order', '10']));
for (const [first, last] of await plain.sendCommand(['LEAF.RANGE', 'snowflake', 'order', '100'])) {
  for (let id = BigInt(first); id <= BigInt(last); id++) take([String(id)]);
}
await plain.close();
console.log(`node-redis: ${seen.size} IDs`);

const io = new Redis({ port, stringNumbers: true });
take([await io.incr('leaf-segment-test')]);
take(await io.call('LEAF.SNOWFLAKE', 'order', '10'));
take((await Promise.all(Array.from({ length: 100 }, () => io.incr('leaf-segment-test')))));
await assert.rejects(io.incr('none'), /UNKNOWN_KEY/);
await io.quit();
console.log(`with ioredis: ${seen.size} IDs`);
