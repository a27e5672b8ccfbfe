import { en, type Messages } from "./en";

/** The reader's language. English is all there is so far; another is chosen here. */
export const m: Messages = en;
