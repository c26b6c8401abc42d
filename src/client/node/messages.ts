/** What the renewing thread is told, and what it tells. */
import type { Granted } from "../renewal.js";
import type { TransportOptions } from "../transport.js";

export type ToRenewer =
  | {
      readonly type: "keep";
      readonly id: number;
      readonly options: Omit<TransportOptions, "fetch">;
      readonly granted: Granted;
      /** When this was sent, on the sender's monotonic clock: not in every runtime do threads share one. */
      readonly at: number;
      readonly memory: SharedArrayBuffer | ArrayBuffer;
    }
  | { readonly type: "drop"; readonly id: number };

export type FromRenewer =
  | { readonly type: "ready" }
  /** The lease is in its hands. */
  | { readonly type: "kept"; readonly id: number }
  | { readonly type: "lost"; readonly id: number; readonly why: string };
