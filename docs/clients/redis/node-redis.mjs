import { createClient, RESP_TYPES } from 'redis';
import { failover } from './failover.mjs';

const [count, ...addresses] = process.argv.slice(2);
const commandOptions = { typeMapping: { [RESP_TYPES.NUMBER]: String } };
const clients = addresses.map((address) => createClient({ url: `redis://${address}`, disableOfflineQueue: true, socket: { reconnectStrategy: 100 }, commandOptions }));
for (const client of clients) client.on('error', () => {}).connect(); // tries until it is connected
const next = failover(clients.map((client) => () => client.sendCommand(['LEAF.SNOWFLAKE', 'order'])));
for (let i = 0; i < count; i++) console.log(await next());
for (const client of clients) client.destroy();
