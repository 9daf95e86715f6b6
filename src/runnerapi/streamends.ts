/**
 * Header of the reply with which a runner opens a stream, with any value: it closes the WebSocket with 1000, or without a code, at the
 * stream's end only. Runners without it cut it at its end, too.
 */
export const streamEndsHeader = 'svc3-stream-ends';
