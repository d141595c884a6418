-- Sends notifications to every listener of the channel `tenure`, in a transaction of its own: a commit that notifies takes
-- a lock that all of them share, and a writing one would hold it while it waits for its disk. Nothing is written, and two
-- senders exclude each other only for that moment. No index.
SELECT pg_notify('tenure', p.payload)
FROM unnest($1::text[]) AS p (payload)
