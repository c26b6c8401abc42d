/**
 * The connections of one server: few, made when they are needed, dropped when they fail, so that a database that was away is
 * used again as soon as it is back. Who finds all of them busy waits its turn, within its deadline.
 */
import type { ClientConfig } from "pg";
import { StoreError } from "../../store/store.js";
import { Connection, Failure, type Row } from "./connection.js";

interface Waiting {
  readonly take: (connection: Connection | null) => void;
}

export interface Answer {
  readonly rows: readonly Row[];
  readonly isWarned: boolean;
}

export class Pool {
  readonly #idle: Connection[] = [];
  readonly #open = new Set<Connection>();
  #waiting: Waiting[] = [];
  #connecting = 0;
  #isClosed = false;
  readonly #counts = { made: 0, lost: 0, overdue: 0 };

  constructor(
    readonly config: ClientConfig,
    readonly connectionsMax: number,
    readonly deadlineMs: number,
  ) {}

  /** One statement on whichever connection. Throws `Failure`, or `closed`. */
  async query(text: string, values: readonly unknown[] = []): Promise<Answer> {
    return this.with(async (connection, until) => {
      const rows = await connection.query(text, values, until - performance.now());
      return { rows, isWarned: connection.isWarned };
    });
  }

  /** Several statements on one connection, all within one deadline. A connection that fails halfway is dropped. */
  async with<Result>(
    body: (connection: Connection, until: number) => Promise<Result>,
    deadlineMs = this.deadlineMs,
  ): Promise<Result> {
    const until = performance.now() + deadlineMs;
    const connection = await this.#take(until);
    try {
      return await body(connection, until);
    } finally {
      this.#giveBack(connection);
    }
  }

  get counts(): Readonly<Record<string, number>> {
    return {
      pool_connections: this.#open.size,
      pool_idle: this.#idle.length,
      pool_waiting: this.#waiting.length,
      pool_connects_total: this.#counts.made,
      pool_lost_total: this.#counts.lost,
      pool_overdue_total: this.#counts.overdue,
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { take } of this.#waiting.splice(0)) take(null);
    await Promise.all([...this.#open].map((connection) => connection.close()));
  }

  async #take(until: number): Promise<Connection> {
    if (this.#isClosed) throw closed();
    for (let connection = this.#idle.pop(); connection !== undefined; connection = this.#idle.pop())
      if (connection.isOpen) return connection;
    if (this.#open.size + this.#connecting < this.connectionsMax) return this.#make(until);
    const connection = await this.#turn(until);
    if (this.#isClosed) throw closed();
    return connection ?? this.#make(until);
  }

  /** null: there is room for one more. */
  #turn(until: number): Promise<Connection | null> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        take: (connection) => {
          clearTimeout(timer);
          resolve(connection);
        },
      };
      const timer = setTimeout(() => {
        this.#counts.overdue++;
        this.#waiting = this.#waiting.filter((one) => one !== waiting);
        reject(new Failure("all connections were busy until the deadline", "", true, true));
      }, until - performance.now());
      this.#waiting.push(waiting);
    });
  }

  async #make(until: number): Promise<Connection> {
    this.#connecting++;
    try {
      const connection = await Connection.open(this.config, until - performance.now());
      this.#counts.made++;
      this.#open.add(connection);
      void connection.ended.then(() => this.#forget(connection));
      if (this.#isClosed) {
        connection.destroy();
        throw closed();
      }
      return connection;
    } catch (error) {
      this.#waiting.shift()?.take(null);
      throw error;
    } finally {
      this.#connecting--;
    }
  }

  #giveBack(connection: Connection): void {
    if (!connection.isOpen) {
      this.#forget(connection);
      return;
    }
    const next = this.#waiting.shift();
    if (next === undefined) this.#idle.push(connection);
    else next.take(connection);
  }

  #forget(connection: Connection): void {
    if (!this.#open.delete(connection)) return;
    if (!this.#isClosed) this.#counts.lost++;
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
    this.#waiting.shift()?.take(null);
  }
}

const closed = (): StoreError => new StoreError("closed", "the store was closed");
