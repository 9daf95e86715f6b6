import { useRef } from 'preact/hooks';

/**
 * Every key of a screen that has the focus goes to the guest, Tab too: Ctrl, Alt and Shift together, let go, lead out of it. Not before they are
 * let go, or the guest would have them held.
 */
export function useWayOut(leave: () => void) {
  const isLeaving = useRef(false);
  return {
    onKeyDownCapture: ({ ctrlKey, altKey, shiftKey }: KeyboardEvent): void => {
      if (ctrlKey && altKey && shiftKey) isLeaving.current = true;
    },
    onKeyUpCapture: ({ ctrlKey, altKey, shiftKey }: KeyboardEvent): void => {
      if (!isLeaving.current || ctrlKey || altKey || shiftKey) return;
      isLeaving.current = false;
      // The screen tells the guest of this key first.
      setTimeout(leave);
    },
  };
}
