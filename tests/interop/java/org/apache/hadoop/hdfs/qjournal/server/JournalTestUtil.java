package org.apache.hadoop.hdfs.qjournal.server;

import java.io.IOException;
import java.io.UncheckedIOException;

/** Stands in for Hadoop's class of this name: it spoils the edits that one of our daemons has at hand. */
public final class JournalTestUtil {
  private JournalTestUtil() {}

  public static void corruptJournaledEditsCache(long txid, Journal journal) {
    try {
      ((ServedJournalNode.LookIn) journal).spoilCache(txid);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
