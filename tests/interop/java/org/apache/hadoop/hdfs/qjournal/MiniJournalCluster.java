package org.apache.hadoop.hdfs.qjournal;

import interop.JournalHost;
import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.util.Arrays;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.hdfs.DFSConfigKeys;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.qjournal.server.JournalNode;
import org.apache.hadoop.hdfs.qjournal.server.ServedJournalNode;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;

/**
 * Stands in for Hadoop's class of this name: its tests get our journal daemons for their JournalNodes.
 *
 * <p>One process hosts them all, over one store. Where tests look for a JournalNode's files they find a shadow: the
 * names that a JournalNode would have given to what the acceptor holds, drawn anew each time somebody looks.
 */
public final class MiniJournalCluster implements Closeable {
  public static final String CLUSTER_WAITACTIVE_URI = "waitactive";

  private final File baseDirectory;
  private final JournalHost host;
  private final ServedJournalNode[] nodes;

  /** As the tests build one; {@code format} throws away what an earlier cluster left in the folder. */
  public static class Builder {
    private final Configuration configuration;
    private File baseDirectory = new File(MiniDFSCluster.getBaseDirectory());
    private int nodeCount = 3;
    private boolean format = true;
    private int[] httpPorts;
    private int[] rpcPorts;

    static {
      DefaultMetricsSystem.setMiniClusterMode(true);
    }

    public Builder(Configuration configuration) {
      this.configuration = configuration;
    }

    public Builder(Configuration configuration, File baseDirectory) {
      this.configuration = configuration;
      this.baseDirectory = baseDirectory;
    }

    /** Null leaves the default. */
    public Builder baseDir(String directory) {
      baseDirectory = directory == null ? baseDirectory : new File(directory);
      return this;
    }

    public Builder numJournalNodes(int count) {
      nodeCount = count;
      return this;
    }

    public Builder format(boolean wanted) {
      format = wanted;
      return this;
    }

    public Builder setHttpPorts(int... ports) {
      httpPorts = ports;
      return this;
    }

    public Builder setRpcPorts(int... ports) {
      rpcPorts = ports;
      return this;
    }

    public MiniJournalCluster build() throws IOException {
      return new MiniJournalCluster(this);
    }
  }

  private MiniJournalCluster(Builder builder) throws IOException {
    baseDirectory = builder.baseDirectory.getAbsoluteFile();
    File data = new File(baseDirectory, "bookledger");
    if (builder.format) {
      FileUtil.fullyDelete(data);
    }
    host = new JournalHost(data);
    nodes = new ServedJournalNode[builder.nodeCount];
    for (int i = 0; i < nodes.length; i++) {
      if (builder.format) {
        FileUtil.fullyDelete(getStorageDir(i));
      }
      nodes[i] = new ServedJournalNode(host, i, getStorageDir(i), builder.configuration);
      nodes[i].serve(port(builder.rpcPorts, i), port(builder.httpPorts, i));
    }
  }

  private static int port(int[] ports, int i) {
    return ports == null ? 0 : ports[i];
  }

  public URI getQuorumJournalURI(String journal) {
    String addresses =
        Arrays.stream(nodes).map(node -> "127.0.0.1:" + node.rpcPort()).collect(Collectors.joining(";"));
    return URI.create("qjournal://" + addresses + "/" + journal);
  }

  /** Serves again what was shut down. */
  public void start() throws IOException {
    for (ServedJournalNode node : nodes) {
      node.serveAgain();
    }
  }

  public void restartJournalNode(int i) throws InterruptedException, IOException {
    nodes[i].stopAndJoin(0);
    nodes[i].serveAgain();
  }

  /** Nothing: a daemon that was started serves. */
  public void waitActive() {}

  /** Ends the daemons and their store; twice is fine. */
  public void shutdown() throws IOException {
    for (ServedJournalNode node : nodes) {
      node.lookForTheLastTime();
    }
    host.close();
  }

  @Override
  public void close() throws IOException {
    shutdown();
  }

  public File getStorageDir(int i) {
    return new File(baseDirectory, "journalnode-" + i).getAbsoluteFile();
  }

  public File getJournalDir(int i, String journal) {
    return nodes[i].shadow(journal);
  }

  public File getCurrentDir(int i, String journal) {
    return nodes[i].shadow(journal, "current");
  }

  public File getPreviousDir(int i, String journal) {
    return nodes[i].shadow(journal, "previous");
  }

  public JournalNode getJournalNode(int i) {
    return nodes[i];
  }

  public String getJournalNodeIpcAddress(int i) {
    return nodes[i].getBoundIpcAddress().toString();
  }

  public int getQuorumSize() {
    return nodes.length / 2 + 1;
  }

  public int getNumNodes() {
    return nodes.length;
  }

  /** Tells the nodes the journal's URI, as Hadoop's do with a configuration of theirs. */
  public void setNamenodeSharedEditsConf(String journal) {
    String uri = getQuorumJournalURI(journal).toString();
    for (ServedJournalNode node : nodes) {
      node.getConf().set(DFSConfigKeys.DFS_NAMENODE_SHARED_EDITS_DIR_KEY, uri);
    }
  }
}
