;; A sampler with four slots that answers what its configuration says: { action, token, count, length of a text for the log },
;; that text, and the bytes for the answer area. It keeps a copy of the rows of each call from 98,816 on, 512 bytes each.
(func (export "step") (param $rows i32) (result i32)
  (local $i i32) (local $row i32) (local $result i32) (local $trace i32) (local $log i32)
  (local.set $trace (i32.add (i32.const 98816) (i32.shl (i32.load (i32.const 98304)) (i32.const 9))))
  (i32.store (i32.const 98304) (i32.add (i32.load (i32.const 98304)) (i32.const 1)))
  (i32.store (local.get $trace) (local.get $rows))
  (memory.copy (i32.add (local.get $trace) (i32.const 8)) (i32.const 20480) (i32.mul (local.get $rows) (i32.const 96)))
  (local.set $log (i32.load (i32.const 65548)))
  (memory.copy (i32.const 57348) (i32.const 65552) (local.get $log))
  (i32.store (i32.const 57344) (local.get $log))
  (loop $next
    (local.set $row (i32.add (i32.const 20480) (i32.mul (local.get $i) (i32.const 96))))
    (if (i32.and (i32.load offset=8 (local.get $row)) (i32.const 4)) (then
      (local.set $result (i32.add (i32.const 20992) (i32.shl (local.get $i) (i32.const 4))))
      (i32.store (local.get $result) (i32.const 16))
      (i64.store offset=4 align=4 (local.get $result) (i64.load align=4 (i32.const 65536)))
      (i32.store offset=12 (local.get $result) (i32.load (i32.const 65544)))
      (memory.copy (i32.add (i32.const 49152) (i32.shl (i32.load offset=4 (local.get $row)) (i32.const 6)))
                   (i32.add (i32.const 65552) (local.get $log)) (i32.const 64))))
    (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $rows))))
  (i32.const 0))
