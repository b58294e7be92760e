"""What ``understudy evaluate`` does, part by part: read, then measure, then judge."""
