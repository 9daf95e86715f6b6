import { isSvc3Error, type Svc3Error } from '../../errors.ts';
import { deletedAccount, type Accounts } from '../call/accounts.ts';
import { unauthorized } from '../auth/auth.ts';
import type { Admitted } from './streamadmission.ts';

/** How often the right to a stream is asked for again, in milliseconds: as long as a decision may be remembered. */
const defaultConfirmEveryMs = 10_000;

/**
 * Watches whether the user of an open stream still may have it, and calls back once when not: the token has ended, the account
 * was deleted, the right was taken away. The returned function ends the watch.
 *
 * A check that kube-apiserver does not answer ends nothing: consoles outlive its restarts.
 */
export function keepLease(
  admitted: Pick<Admitted, 'user' | 'endsAt' | 'confirm'>,
  accounts: Accounts,
  onOver: (reason: Svc3Error) => void,
  everyMs = defaultConfirmEveryMs,
): () => void {
  const { user, endsAt = Infinity } = admitted;
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;

  function end(): void {
    isOver = true;
    clearTimeout(timer);
    forget();
  }

  function over(reason: Svc3Error): void {
    if (isOver) return;
    end();
    onOver(reason);
  }

  function wait(): void {
    timer = setTimeout(() => void look(), Math.max(0, Math.min(everyMs, endsAt - Date.now())));
  }

  async function look(): Promise<void> {
    if (Date.now() >= endsAt) {
      over(unauthorized('the session has ended with the token that opened it'));
      return;
    }
    try {
      await admitted.confirm();
    } catch (error) {
      if (isSvc3Error(error, 'Unauthorized', 'Forbidden')) over(error);
    }
    if (!isOver) wait();
  }

  const forget = accounts.onDeleted(user, () => over(deletedAccount()));
  // It may have gone while the stream was being opened.
  if (accounts.isDeleted(user)) over(deletedAccount());
  else wait();
  return end;
}
