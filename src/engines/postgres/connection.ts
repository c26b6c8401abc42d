/**
 * One connection to the database. A statement ends within its deadline: with its rows, or with what is known of why not,
 * in particular whether it can have been carried out.
 */
import { Client, type ClientConfig, DatabaseError, type Notification } from "pg";

/** How long a connection may take to be ready again after the database refused a statement, in ms. */
const readyMs = 1000;

/** Why a statement has no answer. */
export class Failure extends Error {
  override readonly name = "Failure";
  constructor(
    message: string,
    /** The database's code, or that of the system; "" if neither said anything. */
    readonly code: string,
    /** Nothing of the statement was or will be carried out. */
    readonly isCertain: boolean,
    readonly isOverdue: boolean,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

export type Row = readonly (string | null)[];

export class Connection {
  readonly #client: Client;
  #isOpen = false;
  #isWarned = false;
  /** The database has said that it is ready for the next statement. */
  #isReady = true;
  #ready: () => void = () => undefined;
  readonly #ended: Promise<void>;

  private constructor(config: ClientConfig) {
    // Values as the text that the database sent: what is a number is said where it is used.
    this.#client = new Client({ ...config, types: { getTypeParser: () => asText } });
    this.#client.on("error", () => this.destroy());
    this.#client.on("notice", ({ code }) => {
      this.#isWarned ||= code !== undefined && !code.startsWith("00");
    });
    this.#client.on("drain", () => {
      this.#isReady = true;
      this.#ready();
    });
    this.#ended = new Promise((resolve) => this.#client.once("end", resolve));
    void this.#ended.then(() => {
      this.#isOpen = false;
      this.#ready();
    });
  }

  static async open(config: ClientConfig, withinMs: number): Promise<Connection> {
    const connection = new Connection({ ...config, connectionTimeoutMillis: Math.max(1, withinMs) });
    try {
      await connection.#client.connect();
    } catch (error) {
      connection.destroy();
      throw new Failure(textOf(error), codeOf(error), true, false, { cause: error });
    }
    connection.#isOpen = true;
    return connection;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Resolves when it is over. */
  get ended(): Promise<void> {
    return this.#ended;
  }

  /** The database's process as it was told at the start: a pooler in between tells one of its own making. */
  get processId(): number | null {
    return (this.#client as Client & { readonly processID: number | null }).processID;
  }

  onNotification(run: (notification: Notification) => void): void {
    this.#client.on("notification", run);
  }

  /** One at a time. After a `Failure` the connection may have ended. */
  async query(text: string, values: readonly unknown[], withinMs: number): Promise<readonly Row[]> {
    this.#isWarned = false;
    this.#isReady = false;
    let isOverdue = false;
    const timer = setTimeout(() => {
      isOverdue = true;
      this.destroy();
    }, withinMs);
    try {
      const { rows } = await this.#client.query<(string | null)[]>({
        text,
        values: values as unknown[],
        rowMode: "array",
      });
      return rows ?? [];
    } catch (error) {
      if (isOverdue) throw new Failure(`no answer within ${Math.round(withinMs)} ms`, "", false, true);
      throw await this.#failureOf(error);
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * The last statement ended with a warning of the database. A commit that was told not to wait for its standby any longer
   * ends like that, and as if all were well.
   */
  get isWarned(): boolean {
    return this.#isWarned;
  }

  /**
   * A statement that was refused is undone before the connection is ready for another. One that the database did not survive,
   * or whose connection was cut, may be done: what the error says does not tell them apart, that it is ready does.
   */
  async #failureOf(error: unknown): Promise<Failure> {
    const isSaid = error instanceof DatabaseError;
    const isReady = isSaid && (await this.#isReadyAgain());
    if (!isReady) this.destroy();
    const code = codeOf(error);
    return new Failure(textOf(error), code, isReady && !code.startsWith("08"), false, { cause: error });
  }

  async #isReadyAgain(): Promise<boolean> {
    if (!this.#isReady && this.#isOpen)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, readyMs);
        this.#ready = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    return this.#isReady && this.#isOpen;
  }

  /** At once, whatever is under way. */
  destroy(): void {
    this.#isOpen = false;
    this.#client.connection.stream.destroy();
  }

  async close(): Promise<void> {
    this.#isOpen = false;
    const cut = setTimeout(() => this.destroy(), readyMs);
    await this.#client.end().catch(() => undefined);
    clearTimeout(cut);
  }
}

const asText = (value: string): string => value;

function codeOf(error: unknown): string {
  const { code } = Object(error) as { code?: unknown };
  return typeof code === "string" ? code : "";
}

function textOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === "") return textOf(error.errors[0]);
  return error instanceof Error ? error.message : String(error);
}
