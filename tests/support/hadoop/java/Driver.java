import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FsShell;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.ha.HAServiceProtocol;
import org.apache.hadoop.ha.HAServiceProtocol.RequestSource;
import org.apache.hadoop.ha.HAServiceProtocol.StateChangeRequestInfo;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.tools.DFSAdmin;
import org.apache.hadoop.hdfs.tools.NNHAServiceTarget;
import org.apache.hadoop.hdfs.tools.offlineEditsViewer.OfflineEditsViewer;
import org.apache.hadoop.util.ToolRunner;

/**
 * Commands to NameNodes from one Java process, which is there much sooner than one for each command.
 *
 * <p>Reads a command a line, words between tabs, and answers with a line that begins with "ok" or "failed". The
 * configuration is that of the class path. What Hadoop prints goes to standard error.
 */
public final class Driver {
  private static final int CALL_MILLIS_MAX = 20_000;
  private static final long PAUSE_MILLIS = 10;

  private final Configuration conf = new HdfsConfiguration();
  private final List<Thread> writers = new ArrayList<>();
  private final Set<String> acknowledged = new ConcurrentSkipListSet<>();
  private final AtomicLong operations = new AtomicLong();
  private volatile boolean isOver;
  private volatile Throwable defect;

  private Driver() {}

  public static void main(String[] arguments) throws Exception {
    PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    System.setOut(System.err);
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    Driver driver = new Driver();
    answers.println("ok");
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      String answer;
      try {
        answer = "ok\t" + driver.answer(line.split("\t", -1));
      } catch (Throwable failure) {
        failure.printStackTrace();
        answer = "failed\t" + failure;
      }
      answers.println(answer.replace("\r", "").replace("\n", " "));
    }
    // Hadoop leaves threads behind that would keep the process for ever.
    Runtime.getRuntime().halt(0);
  }

  private String answer(String[] words) throws Exception {
    String[] rest = Arrays.copyOfRange(words, 1, words.length);
    switch (words[0]) {
      case "active":
        service(rest[0], rest[1]).transitionToActive(new StateChangeRequestInfo(RequestSource.REQUEST_BY_USER_FORCED));
        return "";
      case "standby":
        service(rest[0], rest[1]).transitionToStandby(new StateChangeRequestInfo(RequestSource.REQUEST_BY_USER_FORCED));
        return "";
      case "state":
        return service(rest[0], rest[1]).getServiceStatus().getState().toString();
      case "admin":
        return told(() -> ToolRunner.run(new DFSAdmin(conf), rest));
      case "shell":
        return told(() -> ToolRunner.run(new FsShell(conf), rest));
      case "view":
        return told(
            () -> new OfflineEditsViewer().go(rest[0], rest[1], "xml", new OfflineEditsViewer.Flags(), null));
      case "list":
        return list();
      case "begin":
        begin(Integer.parseInt(rest[0]));
        return "";
      case "operations":
        check();
        return Long.toString(operations.get());
      case "end":
        return end();
      default:
        throw new IllegalArgumentException("no such command: " + words[0]);
    }
  }

  /** The exit code of a program, and what it printed in one line. */
  private static String told(Callable<Integer> program) throws Exception {
    ByteArrayOutputStream printed = new ByteArrayOutputStream();
    PrintStream before = System.out;
    System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
    try {
      return program.call() + "\t" + printed.toString(StandardCharsets.UTF_8).replace('\t', ' ');
    } finally {
      System.setOut(before);
    }
  }

  private HAServiceProtocol service(String nameService, String nameNode) throws Exception {
    return new NNHAServiceTarget(conf, nameService, nameNode).getProxy(conf, CALL_MILLIS_MAX);
  }

  /** All paths, sorted, between tabs. */
  private String list() throws Exception {
    Set<String> found = new TreeSet<>();
    try (FileSystem files = FileSystem.newInstance(conf)) {
      listBelow(files, new Path("/"), found);
    }
    return String.join("\t", found);
  }

  private static void listBelow(FileSystem files, Path folder, Set<String> found) throws Exception {
    for (FileStatus one : files.listStatus(folder)) {
      found.add(Path.getPathWithoutSchemeAndAuthority(one.getPath()).toString());
      if (one.isDirectory()) {
        listBelow(files, one.getPath(), found);
      }
    }
  }

  private void begin(int count) {
    for (int number = 0; number < count; number++) {
      int mine = number;
      Thread writer = new Thread(() -> write(mine), "writer-" + number);
      writers.add(writer);
      writer.start();
    }
  }

  /** Makes, renames and deletes folders below one of its own, and notes what stands once that is acknowledged. */
  private void write(int number) {
    String own = "/writer-" + number;
    Random chance = new Random(number);
    List<String> mine = new ArrayList<>();
    try (FileSystem files = FileSystem.newInstance(conf)) {
      make(files, own);
      for (long turn = 0; !isOver; turn++) {
        int what = mine.size() < 10 ? 0 : chance.nextInt(4);
        if (what < 2) {
          String made = own + "/" + turn;
          make(files, made);
          mine.add(made);
        } else {
          String old = mine.remove(chance.nextInt(mine.size()));
          if (what == 2) {
            String renamed = own + "/renamed-" + turn;
            rename(files, old, renamed);
            mine.add(renamed);
          } else {
            delete(files, old);
          }
        }
        operations.incrementAndGet();
        Thread.sleep(PAUSE_MILLIS);
      }
    } catch (Throwable failure) {
      failure.printStackTrace();
      defect = failure;
    }
  }

  private interface Operation {
    boolean tried() throws Exception;
  }

  /** Tries until one that takes calls says that it is done: NameNodes die and give their place away meanwhile. */
  private void insist(String what, Operation operation) throws Exception {
    while (true) {
      try {
        if (!operation.tried()) {
          throw new AssertionError(what + " was refused");
        }
        return;
      } catch (java.io.IOException failure) {
        System.err.println(what + ": " + failure);
        Thread.sleep(PAUSE_MILLIS);
      }
    }
  }

  private void make(FileSystem files, String path) throws Exception {
    insist("mkdir " + path, () -> files.mkdirs(new Path(path)));
    acknowledged.add(path);
  }

  /** An attempt whose answer was lost may have done it. */
  private void rename(FileSystem files, String from, String to) throws Exception {
    insist("rename " + from, () -> files.rename(new Path(from), new Path(to)) || files.exists(new Path(to)));
    acknowledged.remove(from);
    acknowledged.add(to);
  }

  private void delete(FileSystem files, String path) throws Exception {
    insist("delete " + path, () -> files.delete(new Path(path), true) || !files.exists(new Path(path)));
    acknowledged.remove(path);
  }

  /** What must be there, between tabs, once all writers are through with what they were at. */
  private String end() throws Exception {
    isOver = true;
    for (Thread writer : writers) {
      writer.join();
    }
    check();
    return String.join("\t", acknowledged);
  }

  private void check() {
    if (defect != null) {
      throw new IllegalStateException("a writer stopped: " + defect, defect);
    }
  }
}
