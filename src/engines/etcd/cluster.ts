/**
 * The members of a cluster as one: calls go to one of them at a time and on to the next when it is gone, says nothing, or has
 * lost the others. Every call ends within its deadline. A change that may have been made is never sent a second time.
 */
import { setTimeout as delay } from "node:timers/promises";
import { StoreError } from "../../store/store.js";
import { CallError, Connection, codes, type Endpoint } from "./connection.js";
import { judge, storeError } from "./failure.js";
import {
  decodeAuthenticate,
  decodeStatus,
  decodeTxn,
  encodeAuthenticate,
  encodeNothing,
  encodeTxn,
  methods,
  type Status,
  type Txn,
  type TxnResult,
} from "./messages.js";

export interface ClusterOptions {
  readonly endpoints: readonly Endpoint[];
  readonly user: { readonly name: string; readonly password: string } | null;
  /** etcd's --max-txn-ops. */
  readonly opsMax: number;
  /** Every call ends within this, in ms. */
  readonly deadlineMs?: number;
}

/** No call takes longer, in ms. */
const deadlineDefaultMs = 5_000;
/** How long a call that certainly was not carried out is tried again: an election takes one to two seconds. */
const patienceMs = 3_000;
/** Pause before it is, in ms. */
const pauseMs = 100;
/** A member that has not said its first word by then is passed over, in ms. */
const connectMaxMs = 1_000;
/** One that owes answers and has said nothing for so long is left for another, in ms. */
const silenceMaxMs = 1_000;

export class Cluster {
  readonly #deadlineMs: number;
  #current: Connection | null = null;
  #connecting: Promise<Connection> | null = null;
  /** Where the next connection is tried first: not the same member for all servers. */
  #next: number;
  #token: string | null = null;
  /** A new token is on its way. */
  #proving: Promise<void> | null = null;
  /** No member has been reached yet: the URL may be wrong. */
  #isStart = true;
  readonly #watchdog: NodeJS.Timeout;
  #isClosed = false;
  /** Asked of each member that we connect to: throws if it is not to be used. */
  welcome: (status: Status) => void = () => undefined;

  constructor(readonly options: ClusterOptions) {
    this.#deadlineMs = options.deadlineMs ?? deadlineDefaultMs;
    this.#next = Math.floor(Math.random() * options.endpoints.length);
    this.#watchdog = setInterval(() => {
      if (this.#current !== null && this.#current.silentMs() > silenceMaxMs) this.leave(this.#current);
    }, silenceMaxMs / 4).unref();
  }

  /** A transaction that changes something: carried out at most once. `unknown`: perhaps it was. */
  async change(txn: Txn): Promise<TxnResult> {
    return decodeTxn(await this.#call(methods.txn, encodeTxn(txn, this.options.opsMax), false));
  }

  /** A transaction that only reads, as of a moment that is not before the call. */
  async look(txn: Pick<Txn, "reads">): Promise<TxnResult> {
    const message = encodeTxn(
      { compare: [], changes: new Map(), otherwise: [], ...txn },
      this.options.opsMax,
    );
    return decodeTxn(await this.#call(methods.txn, message, true));
  }

  async status(): Promise<Status> {
    return decodeStatus(await this.#call(methods.status, encodeNothing(), true));
  }

  /** A stream from one member: whoever wants more after it has ended asks again. */
  async stream(
    method: string,
    message: Buffer,
    told: (message: Buffer) => void,
    ended: (why: CallError) => void,
  ): Promise<{ cancel(): void; connection: Connection }> {
    const connection = await this.#connected(performance.now() + this.#deadlineMs);
    const stream = connection.stream(method, message, this.#token, told, ended);
    return { cancel: stream.cancel, connection };
  }

  /** Uses another connection from now on. What is under way on this one may still be answered. */
  leave(connection: Connection): void {
    if (this.#current === connection) this.#current = null;
    connection.retire();
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#watchdog);
    this.#current?.close();
    this.#current = null;
  }

  async #call(method: string, message: Buffer, isRepeatable: boolean): Promise<Buffer> {
    const begunAt = performance.now();
    const until = begunAt + this.#deadlineMs;
    for (;;) {
      const connection = await this.#connected(until);
      const token = this.#token;
      try {
        return await connection.call(method, message, until - performance.now(), token, isRepeatable);
      } catch (error) {
        if (!(error instanceof CallError)) throw error;
        const { mayBeDone, again } = judge(error);
        if (again === "elsewhere") this.leave(connection);
        if (mayBeDone && !isRepeatable) throw storeError(error, "unknown");
        if (again === null || performance.now() > begunAt + patienceMs)
          throw storeError(error, "unavailable");
        if (again !== "authenticate") await delay(pauseMs);
        else if (token === this.#token) await this.#prove(connection, error);
      }
    }
  }

  /**
   * A token is good for some minutes, or until the cluster's users change: all calls find that out at once, and one asks for all. If
   * that fails, none of them was done, and each is tried again while it has patience.
   */
  async #prove(connection: Connection, error: CallError): Promise<void> {
    if (this.options.user === null) throw storeError(error, "unavailable");
    this.#proving ??= this.#authenticate(connection).finally(() => {
      this.#proving = null;
    });
    try {
      await this.#proving;
    } catch (failure) {
      if (!(failure instanceof CallError)) throw failure;
      this.leave(connection);
      await delay(pauseMs);
    }
  }

  async #authenticate(connection: Connection): Promise<void> {
    const { user } = this.options;
    if (user === null) return;
    const message = encodeAuthenticate(user.name, user.password);
    try {
      this.#token = decodeAuthenticate(
        await connection.call(methods.authenticate, message, connectMaxMs, null),
      );
    } catch (error) {
      // A cluster without users takes whoever comes.
      if (error instanceof CallError && /authentication is not enabled/.test(error.message)) {
        this.#token = null;
        return;
      }
      if (error instanceof CallError && error.code === codes.invalidArgument)
        throw storeError(error, "unavailable");
      throw error;
    }
  }

  async #connected(until: number): Promise<Connection> {
    const patientUntil = Math.min(until, performance.now() + patienceMs);
    for (;;) {
      if (this.#isClosed) throw new StoreError("closed", "the store was closed");
      if (this.#current?.isUsable) return this.#current;
      this.#connecting ??= this.#connect().finally(() => {
        this.#connecting = null;
      });
      try {
        return await within(this.#connecting, until - performance.now());
      } catch (error) {
        if (error instanceof StoreError || performance.now() + pauseMs > patientUntil)
          throw storeError(error, "unavailable", this.#isStart);
        await delay(pauseMs);
      }
    }
  }

  /** Asks one member after the other, each once. */
  async #connect(): Promise<Connection> {
    const { endpoints } = this.options;
    let failure: unknown;
    for (const _ of endpoints) {
      const endpoint = endpoints[this.#next++ % endpoints.length];
      if (endpoint === undefined) break;
      let connection: Connection | undefined;
      try {
        connection = await Connection.open(endpoint, connectMaxMs);
        await this.#authenticate(connection);
        const status = await connection.call(methods.status, encodeNothing(), connectMaxMs, this.#token);
        this.welcome(decodeStatus(status));
        if (this.#isClosed) throw new StoreError("closed", "the store was closed");
        this.#current = connection;
        this.#isStart = false;
        return connection;
      } catch (error) {
        connection?.close();
        if (error instanceof StoreError) throw error;
        failure = connection === undefined ? error : at(endpoint.authority, error);
      }
    }
    throw failure;
  }
}

/** It was reached, and did not answer as it should: a person needs to know which it was. */
const at = (authority: string, error: unknown): unknown =>
  error instanceof CallError
    ? new CallError(error.code, `${authority}: ${error.message}`, error.isSent, error.advice)
    : error;

async function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new CallError(codes.none, "no member answers", false)), Math.max(ms, 0));
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
