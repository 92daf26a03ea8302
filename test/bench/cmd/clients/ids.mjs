// ids.mjs WAY URL... takes IDs in one way: for each line of its input, a number of calls and the
// seconds after each, it makes them and prints how many failed.
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '../../../../client/node/leafd.js';

const [way, ...urls] = process.argv.slice(2);

// -- single list
async function get(path) {
  const response = await fetch(urls[0] + path, { signal: AbortSignal.timeout(1000) });
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return text.trim();
}

// -- single
const single = async () => BigInt(await get('/api/snowflake/get/order'));

// -- list
let held = [];

async function list() {
  if (held.length === 0) held = (await get('/api/snowflake/get/order?n=1000')).split('\n').reverse();
  return BigInt(held.pop());
}

// -- ranges
const orders = new Client({ addresses: urls }).snowflake('order');
const ranges = () => orders.next();

// -- end

const take = { single, list, ranges }[way];
for await (const line of createInterface({ input: process.stdin })) {
  const [calls, pause] = line.split(' ').map(Number);
  let failed = 0;
  for (let i = 0; i < calls; i++) {
    try {
      await take();
    } catch {
      failed++;
    }
    if (pause) await sleep(pause * 1000);
  }
  console.log(failed);
}
