/** What whoever waits is told when nobody can be served here any more. Certainly not done. */
import { StoreError } from "../store/store.js";

/** The data was moved, or the server stops. */
export const stoppedError = ({ reason }: AbortSignal): StoreError =>
  reason instanceof StoreError
    ? reason
    : new StoreError("unavailable", "the server is stopping: repeat with the same request id");
