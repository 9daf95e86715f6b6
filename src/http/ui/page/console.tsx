import { useEffect, useRef, useState } from 'preact/hooks';
import { call, inNamespace } from './api.ts';
import { afterFailure, prepared } from './screen.ts';
import { useWayOut } from './wayout.ts';

/** As much of noVNC's RFB as is used here. */
interface Screen extends EventTarget {
  scaleViewport: boolean;
  focus(): void;
  disconnect(): void;
  sendCtrlAltDel(): void;
}
type ScreenClass = new (target: HTMLElement, url: string, options: { shared: boolean }) => Screen;

/** The server has noVNC as files beside the page. */
const noVnc: string = '/api/v1/novnc/core/rfb.js';
const waitMs = 3_000;

interface Ticket {
  readonly path: string;
  readonly ticket: string;
}

async function ticketFor(namespace: string, name: string): Promise<Ticket> {
  return (await call<Ticket>('POST', inNamespace(namespace, 'vms', name, 'console'))).body;
}

/**
 * The screen of a VM; a lost connection is asked for again with a new ticket for as long as it is shown, the console is on, and nobody is refused for
 * lack of the right. Where noVNC itself was not loaded, the page has to be.
 */
export function Console({
  namespace,
  name,
  isOn,
}: {
  readonly namespace: string;
  readonly name: string;
  /** Whether the VM has a VNC console. */
  readonly isOn: boolean;
}) {
  const target = useRef<HTMLDivElement>(null);
  const screen = useRef<Screen>(undefined);
  const way = useRef<HTMLButtonElement>(null);
  const wayOut = useWayOut(() => way.current?.focus());
  const [state, setState] = useState('Connecting …');
  const [needsReload, setNeedsReload] = useState(false);

  useEffect(() => {
    setNeedsReload(false);
    setState(isOn ? 'Connecting …' : 'The VNC console of the VM is off.');
    if (!isOn) return undefined;
    let isOver = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const again = (): void => {
      timer = setTimeout(() => void connect(), waitMs);
    };
    async function connect(): Promise<void> {
      try {
        const {
          ticket: { path, ticket },
          program: { default: Rfb },
        } = await prepared(
          () => ticketFor(namespace, name),
          async () => (await import(noVnc)) as { default: ScreenClass },
        );
        if (isOver || target.current === null) return;
        const made = new Rfb(target.current, `wss://${location.host}${path}?ticket=${ticket}`, {
          shared: true,
        });
        screen.current = made;
        made.scaleViewport = true;
        made.addEventListener('connect', () => setState('Connected'));
        made.addEventListener('disconnect', () => {
          screen.current = undefined;
          if (isOver) return;
          setState('The connection was lost. Trying again …');
          again();
        });
      } catch (error) {
        if (isOver) return;
        const after = afterFailure(error);
        setState(after.state);
        setNeedsReload(after.next === 'reload');
        if (after.next === 'again') again();
      }
    }
    void connect();
    return () => {
      isOver = true;
      clearTimeout(timer);
      screen.current?.disconnect();
    };
  }, [namespace, name, isOn]);

  return (
    <section aria-labelledby="console-title">
      <h2 id="console-title">Console</h2>
      <div class="buttons">
        <span role="status">{state}</span>
        {needsReload ? (
          <button type="button" onClick={() => location.reload()}>
            Load the page again
          </button>
        ) : null}
        <button type="button" ref={way} aria-describedby="way-out" onClick={() => screen.current?.focus()}>
          Keyboard
        </button>
        <button type="button" onClick={() => screen.current?.sendCtrlAltDel()}>
          Ctrl-Alt-Del
        </button>
        <button type="button" onClick={() => void target.current?.requestFullscreen()}>
          Full screen
        </button>
      </div>
      <p id="way-out" class="help">
        Keys go to the guest while its screen has the focus. Ctrl, Alt and Shift together lead back.
      </p>
      <div class="screen" ref={target} {...wayOut} />
    </section>
  );
}
