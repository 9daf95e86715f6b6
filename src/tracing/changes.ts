/** How long nothing is said after something was said, in milliseconds. */
const quietMs = 60_000;

export interface Changes {
  /** How it is now: why it fails, or undefined where it does not. */
  is(failure: Error | undefined): void;
  /** Says what has not been said yet. */
  end(): void;
}

/**
 * Says when something begins to fail, and when it works again. A change is said at once, and where the one before was said less than a minute ago at the
 * end of that minute, unless it is by then as it was said: what fails and works in turn is a line a minute, and the last line is true.
 */
export function sayingChanges(say: (failure: Error | undefined) => void): Changes {
  let failure: Error | undefined;
  let isSaidToFail = false;
  let quiet: NodeJS.Timeout | undefined;
  const look = (): void => {
    quiet = undefined;
    const isFailing = failure !== undefined;
    if (isFailing === isSaidToFail) return;
    isSaidToFail = isFailing;
    say(failure);
    quiet = setTimeout(look, quietMs);
    quiet.unref();
  };
  return {
    is(now) {
      failure = now;
      if (quiet === undefined) look();
    },
    end() {
      clearTimeout(quiet);
      look();
      clearTimeout(quiet);
    },
  };
}
