import { useState } from 'preact/hooks';
import { messageOf } from './api.ts';
import { Act, Problem } from './parts.tsx';
import { beginSession, type Session, showSession } from './session.ts';

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
    beginSession({ token })
      .then(onSession)
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

/** A code of another user than who is signed in, and what the server says of it. */
export interface Offer {
  readonly code: string;
  readonly text: string;
}

/** Asks before an address makes somebody another user: it may be a link that somebody else has sent. */
export function ChangeUser({
  offer: { code, text },
  onSession,
}: {
  readonly offer: Offer;
  readonly onSession: (session: Session) => void;
}) {
  const [problem, setProblem] = useState<string>();
  const take = async (session: Promise<Session>): Promise<void> => onSession(await session);
  return (
    <main class="signin">
      <h1>svc3</h1>
      <Problem text={problem} />
      <p>
        This address signs in as another user: {text}. Go on only if it is of a command that you have just
        run.
      </p>
      <Act
        class="main"
        label="Stay signed in as before"
        act={() => take(showSession())}
        onProblem={setProblem}
      />
      <Act
        label="Sign in as the other user"
        act={() => take(beginSession({ code, changesUser: true }))}
        onProblem={setProblem}
      />
    </main>
  );
}
