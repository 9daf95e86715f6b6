import { Component } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { inNamespace } from './api.ts';
import { type Line, sentBy, Terminal } from './terminal.ts';
import { useWayOut } from './wayout.ts';

const waitMs = 3_000;
/** Also what is like one: a tablet with a keyboard. */
const isMac = navigator.userAgent.includes('Mac');
/** RFC 6455, 7.4.1: the server closes with it what somebody may not have any more. */
const policyViolation = 1008;

/** The serial console of a VM; a lost connection is opened again for as long as it is shown and may be had. */
export function Serial({
  namespace,
  name,
  isAllowed,
}: {
  readonly namespace: string;
  readonly name: string;
  /** Whether there is the right to it: the browser does not tell why a connection was refused. */
  readonly isAllowed: boolean;
}) {
  const [terminal] = useState(() => new Terminal());
  const socket = useRef<WebSocket>(undefined);
  const way = useRef<HTMLButtonElement>(null);
  const keyboard = useRef<HTMLTextAreaElement>(null);
  const wayOut = useWayOut(() => way.current?.focus());
  const [state, setState] = useState('Connecting …');
  const [, setDrawn] = useState(0);
  const send = (text: string): void => {
    if (text !== '' && socket.current?.readyState === WebSocket.OPEN)
      socket.current.send(new TextEncoder().encode(text));
  };

  useEffect(() => {
    setState(isAllowed ? 'Connecting …' : 'Your account lacks the right to it.');
    if (!isAllowed) return undefined;
    let isOver = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let frame: number | undefined;
    const draw = (): void => {
      frame ??= requestAnimationFrame(() => {
        frame = undefined;
        setDrawn((times) => times + 1);
      });
    };
    function connect(): void {
      const decoder = new TextDecoder();
      const opened = new WebSocket(`wss://${location.host}${inNamespace(namespace, 'vms', name, 'serial')}`);
      opened.binaryType = 'arraybuffer';
      socket.current = opened;
      opened.addEventListener('open', () => setState('Connected'));
      opened.addEventListener('message', ({ data }: MessageEvent<ArrayBuffer>) => {
        send(terminal.write(decoder.decode(data, { stream: true })));
        draw();
      });
      opened.addEventListener('close', ({ code, reason }) => {
        if (isOver) return;
        const why = reason === '' ? 'the connection was lost' : reason;
        const isFinal = code === policyViolation;
        setState(`${why.charAt(0).toUpperCase()}${why.slice(1)}.${isFinal ? '' : ' Trying again …'}`);
        if (!isFinal) timer = setTimeout(connect, waitMs);
      });
    }
    connect();
    return () => {
      isOver = true;
      clearTimeout(timer);
      if (frame !== undefined) cancelAnimationFrame(frame);
      socket.current?.close();
    };
  }, [namespace, name, isAllowed, terminal]);

  return (
    <section aria-labelledby="serial-title">
      <h2 id="serial-title">Serial console</h2>
      <div class="buttons">
        <span role="status">{state}</span>
        <button
          type="button"
          ref={way}
          aria-describedby="serial-help"
          onClick={() => keyboard.current?.focus()}
        >
          Keyboard of the serial console
        </button>
      </div>
      <p id="serial-help" class="help">
        It shows what the guest writes from now on: press Enter for its prompt. Whoever else has it open sees
        and types the same. Keys go to the guest while the field below has the focus. Ctrl, Alt and Shift
        together lead back.
      </p>
      <Lines
        label={`Serial console of ${name}`}
        terminal={terminal}
        onPress={() => keyboard.current?.focus()}
      />
      <Keyboard terminal={terminal} field={keyboard} send={send} wayOut={wayOut} />
    </section>
  );
}

/** Takes keys as they are pressed, and text that is pasted, composed or comes of a screen's keyboard. */
function Keyboard({
  terminal,
  field,
  send,
  wayOut,
}: {
  readonly terminal: Terminal;
  readonly field: { current: HTMLTextAreaElement | null };
  readonly send: (text: string) => void;
  readonly wayOut: ReturnType<typeof useWayOut>;
}) {
  const take = (element: HTMLTextAreaElement): void => {
    send(element.value.replaceAll(/\r?\n/g, '\r'));
    element.value = '';
  };
  return (
    <textarea
      ref={field}
      class="keyboard"
      rows={1}
      aria-label="Keys for the guest"
      aria-describedby="serial-help"
      placeholder="Type here"
      autocomplete="off"
      autocapitalize="off"
      spellcheck={false}
      {...wayOut}
      onKeyDown={(event: KeyboardEvent) => {
        if (event.isComposing) return;
        const text = sentBy(event, { hasApplicationKeys: terminal.hasApplicationKeys, isMac });
        if (text === undefined) return;
        event.preventDefault();
        send(text);
      }}
      onInput={(event: InputEvent) => {
        if (!event.isComposing) take(event.currentTarget as HTMLTextAreaElement);
      }}
      onCompositionEnd={({ currentTarget }) => take(currentTarget)}
    />
  );
}

/** What the terminal shows; it stays at its end unless somebody has scrolled back. */
function Lines({
  label,
  terminal,
  onPress,
}: {
  readonly label: string;
  readonly terminal: Terminal;
  readonly onPress: () => void;
}) {
  const view = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    if (isAtEnd.current) view.current?.scrollTo({ top: view.current.scrollHeight });
  });
  const { cursor } = terminal;
  return (
    <div
      ref={view}
      class="terminal"
      role="log"
      aria-label={label}
      tabIndex={0}
      onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => {
        isAtEnd.current = scrollTop + clientHeight >= scrollHeight - 2;
      }}
      onClick={() => {
        // Whoever marks a text wants to copy it.
        if (getSelection()?.isCollapsed !== false) onPress();
      }}
    >
      {terminal.lines.map((line) => (
        <OneLine key={line.id} line={line} cursor={line.id === cursor.id ? cursor.column : undefined} />
      ))}
    </div>
  );
}

interface LineProps {
  readonly line: Line;
  readonly cursor: number | undefined;
}

/** Drawn again only where it says something else. */
class OneLine extends Component<LineProps> {
  override shouldComponentUpdate({ line, cursor }: LineProps): boolean {
    const { props } = this;
    return line.text !== props.line.text || cursor !== props.cursor;
  }

  override render({ line: { text }, cursor }: LineProps) {
    if (cursor === undefined) return <div>{text === '' ? '\n' : text}</div>;
    const padded = text.padEnd(cursor + 1);
    return (
      <div>
        {padded.slice(0, cursor)}
        <span class="cursor">{padded.charAt(cursor)}</span>
        {padded.slice(cursor + 1)}
      </div>
    );
  }
}
