//! The one thread that writes. Whoever wants something kept sends the work here;
//! all work that has arrived is committed at once, and nobody hears "done" before
//! it is on the disk, but for those who said that written is enough.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};

use crate::audit::ledger::Ledger;
use crate::error::{Error, Result};

/// So much work may wait; senders beyond that wait themselves.
const WAITING: usize = 1024;
/// So much work goes into one commit at most.
const BATCH: usize = 256;

/// What tells the sender how it went, once the commit has succeeded or failed.
type Tell = Box<dyn FnOnce(std::result::Result<(), String>) + Send>;
/// Work takes the ledger inside a transaction, or the reason why there is none.
type Work = Box<dyn FnOnce(std::result::Result<&mut Ledger, String>) -> Tell + Send>;

/// What the sender waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lasting {
    /// On the disk: it outlives the machine's next crash.
    Disk,
    /// With the kernel: it outlives this process, and follows to the disk.
    Kernel,
}

struct Job {
    lasting: Lasting,
    work: Work,
}

/// The way to the writing thread.
#[derive(Clone)]
pub struct Writer {
    sender: mpsc::Sender<Job>,
    /// Woken when something was written that is not on the disk yet.
    behind: Arc<Notify>,
}

impl Writer {
    /// Starts the thread. It ends when every [`Writer`] is gone and all is written.
    pub fn start(ledger: Ledger) -> Result<(Writer, JoinHandle<()>)> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let behind = Arc::new(Notify::new());
        let notify = Arc::clone(&behind);
        let thread = std::thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || write_all(ledger, receiver, &notify))
            .map_err(Error::file("start a thread for", "audit.db"))?;
        Ok((Writer { sender, behind }, thread))
    }

    /// Has what was only written follow to the disk, again and again.
    pub async fn follow(&self, within: Duration) {
        loop {
            self.behind.notified().await;
            tokio::time::sleep(within).await;
            // Whoever writes next hears of it if this fails.
            let _ = self.write(|_| Ok(())).await;
        }
    }

    /// Has work done on the ledger; returns when it is durable, or was undone.
    pub async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Ledger) -> Result<T> + Send + 'static,
    {
        self.send(Lasting::Disk, work).await
    }

    /// Likewise, but returns when it is written: the end of this process does not undo
    /// it, that of the machine may.
    pub async fn write_soon<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Ledger) -> Result<T> + Send + 'static,
    {
        self.send(Lasting::Kernel, work).await
    }

    async fn send<T, F>(&self, lasting: Lasting, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Ledger) -> Result<T> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let work: Work = Box::new(move |ledger| {
            let result = match ledger {
                Ok(ledger) => ledger.attempt(work),
                Err(why) => Err(Error::NotDurable(why)),
            };
            Box::new(move |committed: std::result::Result<(), String>| {
                let told = match committed {
                    Ok(()) => result,
                    Err(why) => Err(Error::NotDurable(why)),
                };
                // Whoever hung up does not want to know.
                let _ = answer.send(told);
            })
        });
        self.sender
            .send(Job { lasting, work })
            .await
            .map_err(|_| Error::WriterGone)?;
        answered.await.map_err(|_| Error::WriterGone)?
    }
}

fn write_all(mut ledger: Ledger, mut receiver: mpsc::Receiver<Job>, behind: &Notify) {
    ledger.publish_head();
    while let Some(first) = receiver.blocking_recv() {
        let mark = match ledger.begin_transaction() {
            Ok(mark) => mark,
            Err(error) => {
                (first.work)(Err(error.to_string()))(Ok(()));
                continue;
            }
        };
        let mut tells = vec![(first.lasting, (first.work)(Ok(&mut ledger)))];
        while tells.len() < BATCH && ledger.in_transaction() {
            match receiver.try_recv() {
                Ok(job) => tells.push((job.lasting, (job.work)(Ok(&mut ledger)))),
                Err(_) => break,
            }
        }
        let committed = ledger.commit(mark).map_err(|error| error.to_string());
        let (patient, rest): (Vec<_>, Vec<_>) = tells
            .into_iter()
            .partition(|(lasting, _)| *lasting == Lasting::Disk);
        for (_, tell) in rest {
            tell(committed.clone());
        }
        if patient.is_empty() {
            if ledger.is_dirty() {
                behind.notify_one();
            }
            continue;
        }
        let was_dirty = ledger.is_dirty();
        let durable = committed.and_then(|()| ledger.sync().map_err(|error| error.to_string()));
        for (_, tell) in patient {
            tell(durable.clone());
        }
        if durable.is_ok() && was_dirty {
            ledger.publish_head();
        }
        if receiver.is_empty() {
            ledger.reserve();
        }
    }
    let _ = ledger.transaction(Ledger::checkpoint);
    ledger.publish_head();
    ledger.settle();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::audit::mirror::Mirror;
    use crate::audit::record::{Entry, Event};
    use crate::store::Files;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    }

    #[test]
    fn many_senders_get_numbers_without_gaps() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(&Files::new(folder.path()), Mirror::none()).unwrap();
        let (writer, thread) = Writer::start(ledger).unwrap();
        let mut numbers = runtime().block_on(async {
            let tasks: Vec<_> = (0..100)
                .map(|_| {
                    let writer = writer.clone();
                    tokio::spawn(async move {
                        writer
                            .write(|ledger| ledger.append(Entry::new(Event::Start)))
                            .await
                            .unwrap()
                    })
                })
                .collect();
            let mut numbers = Vec::new();
            for task in tasks {
                numbers.push(task.await.unwrap());
            }
            numbers
        });
        numbers.sort_unstable();
        assert_eq!(numbers, (2..=101).collect::<Vec<i64>>());
        drop(writer);
        thread.join().unwrap();
    }

    #[test]
    fn work_that_fails_leaves_nothing_and_harms_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(&Files::new(folder.path()), Mirror::none()).unwrap();
        let (writer, _thread) = Writer::start(ledger).unwrap();
        let (failed, fine) = runtime().block_on(async {
            let failing = writer.write(|ledger| {
                ledger.append(Entry::new(Event::Start))?;
                Err::<(), Error>(Error::WriterGone)
            });
            let fine = writer.write(|ledger| ledger.append(Entry::new(Event::Stop)));
            tokio::join!(failing, fine)
        });
        assert!(matches!(failed, Err(Error::WriterGone)));
        assert_eq!(fine.unwrap(), 2);
    }
}
