import Redis from 'ioredis';
import { failover } from './failover.mjs';

const [count, ...addresses] = process.argv.slice(2);
const clients = addresses.map((address) => new Redis(`redis://${address}`, { stringNumbers: true, maxRetriesPerRequest: 0, retryStrategy: () => 100 }));
for (const client of clients) client.on('error', () => {});
const next = failover(clients.map((client) => () => client.call('LEAF.SNOWFLAKE', 'order')));
for (let i = 0; i < count; i++) console.log(await next());
for (const client of clients) client.disconnect();
