import type { SecureContextOptions } from 'node:tls';

/** All times are in milliseconds. */
export interface Config {
  /** The daemons, such as http://10.0.0.5:8080. Each address of a name is one. */
  addresses: string[];
  /** How long the IDs held of a segment last at the rate of use; of snowflake IDs a second at most. 10,000. */
  ahead?: number;
  /** How many IDs a source holds at most: what a crash loses. 20,000. */
  maxAhead?: number;
  /** Of a snowflake ID that is handed out. 10,000. */
  maxAge?: number;
  /** How long a call waits. 5,000. */
  timeout?: number;
  /** After it the next daemon is asked. 1,000. */
  requestTimeout?: number;
  /** For daemons with a tokens-file. */
  token?: string;
  /** For https://: ca, and the client's cert and key. */
  tls?: SecureContextOptions;
  /** Is called with the error of each request that failed: for logs. It must not throw. */
  failed?: (error: LeafdError) => void;
}

/** Takes IDs from daemons. */
export class Client {
  constructor(config: Config);
  /** Returns a source of snowflake IDs for key, which names the caller. Keep it: it holds the IDs fetched ahead. */
  snowflake(key: string): Source;
  /** Returns a source of the IDs of tag. Keep it: it holds the IDs fetched ahead. */
  segment(tag: string): Source;
}

/** The IDs of one key or tag. */
export interface Source {
  /** How many IDs this process holds. */
  readonly ahead: number;
  /** Resolves to an ID, for which it waits for timeout, by default the client's, or rejects with a LeafdError. */
  next(timeout?: number): Promise<bigint>;
  /** Resolves to n IDs, at most maxAhead, or rejects with a LeafdError. */
  nextN(n: number, timeout?: number): Promise<bigint[]>;
  /** Drops the IDs fetched ahead: to call in each process that is restored from a snapshot. */
  drop(): void;
}

/** Why there is no ID. */
export class LeafdError extends Error {
  /** A daemon's, such as unknown_key, or timeout, unreachable, bad_response. */
  readonly code: string;
  readonly address: string;
  /** Of HTTP; 0: there was no answer of leafd. */
  readonly status: number;
  readonly retryAfter: number;
  /** Whether asking again later is of no use: the request itself is refused. */
  readonly final: boolean;
}
