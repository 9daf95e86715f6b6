import { useState } from 'preact/hooks';
import { call, messageOf } from './api.ts';
import { Problem } from './parts.tsx';
import type { Session } from './session.ts';

/** Asks for a token, which the page keeps nowhere: the server answers with a cookie that no script can read. */
export function SignIn({
  reason,
  onSession,
}: {
  readonly reason: string | undefined;
  readonly onSession: (session: Session) => void;
}) {
  const [problem, setProblem] = useState(reason);
  const [isBusy, setBusy] = useState(false);
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    if (isBusy) return;
    const form = event.currentTarget as HTMLFormElement;
    const token = new FormData(form).get('token');
    setBusy(true);
    setProblem(undefined);
    call<Session>('POST', '/ui/session', { token })
      .then(({ body }) => onSession(body))
      .catch((error: unknown) => setProblem(messageOf(error)))
      .finally(() => setBusy(false));
  };
  return (
    <main class="signin">
      <h1>svc3</h1>
      <Problem text={problem} />
      <form onSubmit={submit}>
        <label for="token">Token</label>
        <input
          id="token"
          name="token"
          type="password"
          required
          autocomplete="off"
          spellcheck={false}
          aria-describedby="token-help"
        />
        <p id="token-help" class="help">
          A bearer token of the cluster, such as <code>svc3 user get-token</code> prints. With the command
          line at hand, <code>svc3 ui</code> signs you in without one.
        </p>
        <button class="main" aria-disabled={isBusy}>
          Sign in
        </button>
      </form>
    </main>
  );
}
